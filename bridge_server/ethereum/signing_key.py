"""A private key that signs. Signatures are deterministic (RFC 6979) and have a low s (EIP-2)."""

from coincurve import PrivateKey

from bridge_server.ethereum.address import address_of_public_key

SECRET_BYTES = 32

_V = (b"\x1b", b"\x1c")  # 27 and 28: by Bitcoin's custom, which Ethereum's messages kept


class SigningKeyError(ValueError):
    """The bytes are not a valid private key; the text names the fault and does not repeat them."""


class SigningKey:
    """A private key and the account that it controls. Its `repr` shows the account alone."""

    __slots__ = ("_key", "address")

    def __init__(self, secret: bytes) -> None:
        """`secret` is 32 bytes, a number from 1 to below the order of the curve; raises SigningKeyError."""
        if len(secret) != SECRET_BYTES:
            raise SigningKeyError(f"a private key has {SECRET_BYTES} bytes, and this one {len(secret)}")
        try:
            self._key = PrivateKey(secret)
        except ValueError:
            raise SigningKeyError("a private key lies between 0 and the order of the curve") from None
        self.address = address_of_public_key(self._key.public_key.format(compressed=False))
        """The address with its checksum."""

    def sign(self, digest: bytes) -> bytes:
        """The signature of 32 bytes as messages carry it: r, s and v, which is 27 or 28, in 65 bytes."""
        signature = self._key.sign_recoverable(digest, hasher=None)
        return signature[:64] + _V[signature[64]]

    def sign_parity(self, digest: bytes) -> tuple[int, int, int]:
        """The signature of 32 bytes as transactions carry it: r, s and the parity, which is 0 or 1."""
        signature = self._key.sign_recoverable(digest, hasher=None)
        return int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]), signature[64]

    def __repr__(self) -> str:
        return f"SigningKey({self.address})"
