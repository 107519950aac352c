"""The encryption between a dapp and a wallet, of which the bridge knows nothing."""

import hmac
import os
from hashlib import sha256
from typing import Any

import orjson
from Crypto.Cipher import AES
from Crypto.Util.Padding import pad, unpad


class Cipher:
    """AES-256-CBC, then HMAC-SHA256 over ciphertext and IV: the bridge sees neither key nor content."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, content: Any) -> dict[str, str]:
        """The content as an `encryptionPayload`."""
        iv = os.urandom(16)
        data = AES.new(self._key, AES.MODE_CBC, iv).encrypt(pad(orjson.dumps(content), 16))
        return {"data": data.hex(), "hmac": self._mac(data, iv), "iv": iv.hex()}

    def open(self, payload: dict[str, str]) -> Any:
        """The content of an `encryptionPayload`; ValueError if anybody has touched it."""
        data, iv = bytes.fromhex(payload["data"]), bytes.fromhex(payload["iv"])
        if not hmac.compare_digest(self._mac(data, iv), payload["hmac"]):
            raise ValueError("the payload was tampered with")
        return orjson.loads(unpad(AES.new(self._key, AES.MODE_CBC, iv).decrypt(data), 16))

    def _mac(self, data: bytes, iv: bytes) -> str:
        return hmac.new(self._key, data + iv, sha256).hexdigest()
