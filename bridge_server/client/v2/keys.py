"""Key agreement of generation 2.x: X25519 (RFC 7748), then HKDF-SHA256 (RFC 5869)."""

from Crypto.Hash import SHA256
from Crypto.Protocol.DH import import_x25519_private_key, import_x25519_public_key, key_agreement
from Crypto.Protocol.KDF import HKDF
from Crypto.PublicKey import ECC

from bridge_server.client.session.errors import BadPayloadError

KEY_BYTES = 32


class KeyPair:
    """An X25519 key pair, new for each session."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._private = ECC.generate(curve="Curve25519") if seed is None else import_x25519_private_key(seed)
        self.public: bytes = self._private.public_key().export_key(format="raw")

    def symmetric_key(self, peer_public: bytes) -> bytes:
        """The symmetric key shared with the owner of the public key. Raises BadPayloadError."""
        try:
            public = import_x25519_public_key(peer_public)
            return bytes(key_agreement(static_priv=self._private, static_pub=public, kdf=derived))
        except ValueError as error:
            raise BadPayloadError("The other side's public key is no X25519 key that can be used.") from error


def derived(secret: bytes) -> bytes:
    """The symmetric key of a shared secret: HKDF-SHA256 without salt and info."""
    return bytes(HKDF(secret, KEY_BYTES, b"", SHA256))


def read_public_key(text: object) -> bytes:
    """Read a public key in hexadecimal. Raises BadPayloadError."""
    try:
        key = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadPayloadError(f"A public key must be {2 * KEY_BYTES} hexadecimal digits.")
    return key
