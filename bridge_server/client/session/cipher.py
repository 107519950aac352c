"""The end-to-end encryption between a dapp and a wallet.

Source: `encrypt` and `decrypt` of the published js-walletconnect-core 0.7.28. AES-256-CBC over the JSON text
`{"data": content}`, then HMAC-SHA256 with the same key over the *hexadecimal text* of ciphertext and IV.
"""

import hmac
import re
from hashlib import sha256
from secrets import token_bytes
from typing import Any

import orjson
from Crypto.Cipher import AES
from Crypto.Util.Padding import pad, unpad

from bridge_server.client.session.errors import BadPayloadError

KEY_BYTES = 32

_BLOCK_BYTES = 16
_PARTS = {
    "data": re.compile(r"(?:[0-9A-Fa-f]{32})+"),
    "hmac": re.compile(r"[0-9A-Fa-f]{64}"),
    "iv": re.compile(r"[0-9A-Fa-f]{32}"),
}


class Cipher:
    """Encrypts and decrypts payloads with the key of one session."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must be {KEY_BYTES} bytes, not {len(key)}")
        self._key = key

    def seal(self, content: Any) -> dict[str, str]:
        """Encrypt a content, any JSON value, as an `encryptionPayload`. Raises TypeError."""
        iv = token_bytes(_BLOCK_BYTES)
        padded = pad(self._text(content), _BLOCK_BYTES)
        data = AES.new(self._key, AES.MODE_CBC, iv).encrypt(padded).hex()
        return {"data": data, "hmac": self._mac(data, iv).hex(), "iv": iv.hex()}

    def open(self, payload: object) -> Any:
        """Decrypt an `encryptionPayload`; returns its content. Raises BadPayloadError."""
        data, mac, iv = _parts(payload)
        if not hmac.compare_digest(self._mac(data, iv), mac):
            raise BadPayloadError("The payload was sealed with another key, or touched on its way.")
        padded = AES.new(self._key, AES.MODE_CBC, iv).decrypt(bytes.fromhex(data))
        try:
            return self._content(unpad(padded, _BLOCK_BYTES))
        except (ValueError, TypeError, KeyError) as error:
            raise BadPayloadError("The payload holds something else than this generation puts in.") from error

    def _mac(self, data: str, iv: bytes) -> bytes:
        return hmac.digest(self._key, self._authenticated(data, iv), sha256)

    def _text(self, content: Any) -> bytes:
        return orjson.dumps({"data": content})

    def _content(self, text: bytes) -> Any:
        return orjson.loads(text)["data"]

    def _authenticated(self, data: str, iv: bytes) -> bytes:
        return (data + iv.hex()).encode()


def _parts(payload: object) -> tuple[str, bytes, bytes]:
    """The ciphertext in hexadecimal, the HMAC and the IV of a payload, an object or its JSON text."""
    try:
        fields = orjson.loads(payload) if isinstance(payload, str) else payload
    except orjson.JSONDecodeError:
        fields = None
    parts = fields if isinstance(fields, dict) else {}
    for name, form in _PARTS.items():
        part = parts.get(name)
        if not isinstance(part, str) or not form.fullmatch(part):
            raise BadPayloadError(f"The payload is not {{data, hmac, iv}} in hexadecimal: see its {name}.")
    return parts["data"], bytes.fromhex(parts["hmac"]), bytes.fromhex(parts["iv"])
