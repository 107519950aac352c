"""A browser that subscribes to pushes and reads them: decryption by another library than the server's."""

import base64
import secrets
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.webpush_service import WebPushService

_CURVE = ec.SECP256R1()


class Browser:
    """One subscription's keys (RFC 8291, section 2)."""

    def __init__(self, private: int | None = None, auth: bytes | None = None) -> None:
        self._key = ec.generate_private_key(_CURVE) if private is None else _private_key(private)
        self._auth = secrets.token_bytes(16) if auth is None else auth

    @property
    def point(self) -> bytes:
        return _point(self._key.public_key())

    @property
    def p256dh(self) -> str:
        return base64url(self.point)

    @property
    def auth(self) -> str:
        return base64url(self._auth)

    def subscribe(self, service: WebPushService, application_server_key: str | None = None) -> str:
        """Subscribe at the service; returns the JSON that the page sends to its server."""
        return service.subscribe(self.p256dh, self.auth, application_server_key)

    def decrypt(self, body: bytes) -> bytes:
        """The plaintext of one record, with its padding taken off (RFC 8188, section 2; RFC 8291, 3.4)."""
        salt, size, sender = body[:16], int.from_bytes(body[16:20], "big"), body[21 : 21 + body[20]]
        record = body[21 + body[20] :]
        assert 17 <= len(record) <= size
        shared = self._key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, sender))
        secret = _hkdf(self._auth, shared, b"WebPush: info\0" + self.point + sender, 32)
        key = _hkdf(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _hkdf(salt, secret, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\0")
        assert padded[-1:] == b"\x02"
        return padded[:-1]

    def read(self, body: bytes) -> Any:
        """The JSON that the service worker is handed."""
        return orjson.loads(self.decrypt(body))


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _private_key(number: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(number, _CURVE)


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _hkdf(salt: bytes, secret: bytes, info: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, salt, info).derive(secret)
