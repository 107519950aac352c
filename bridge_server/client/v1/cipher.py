"""The encryption of generation 1.x.

Source: `encrypt` and `decrypt` of the published @walletconnect/iso-crypto 1.8.0. AES-256-CBC over the JSON
text of the content, then HMAC-SHA256 with the same key over the *bytes* of ciphertext and IV.
"""

from typing import Any

import orjson

from bridge_server.client.session.cipher import Cipher


class SocketCipher(Cipher):
    """Encrypts and decrypts payloads with the key of one session of generation 1.x."""

    def _text(self, content: Any) -> bytes:
        return orjson.dumps(content)

    def _content(self, text: bytes) -> Any:
        return orjson.loads(text)

    def _authenticated(self, data: str, iv: bytes) -> bytes:
        return bytes.fromhex(data) + iv
