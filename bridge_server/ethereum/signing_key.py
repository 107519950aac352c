"""A private key that signs (RFC 6979, with a low s: EIP-2), and the address of a signer, from a signature."""

from functools import cache
from importlib import import_module
from typing import Any

from bridge_server.ethereum.address import address_of_public_key
from bridge_server.ethereum.keccak import keccak256

SECRET_BYTES = 32

_V = (b"\x1b", b"\x1c")  # 27 and 28: by Bitcoin's custom, which Ethereum's messages kept

_DIGEST_BYTES = 32
_NUMBER_BYTES = 32
_SIGNATURE_BYTES = 65

# The number of points on secp256k1 (SEC 2, section 2.4.1).
_CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141

# Which of the two points r stands for; 27 and 28 are the spelling of Bitcoin, which most wallets kept.
_PARITIES = {0: b"\x00", 1: b"\x01", 27: b"\x00", 28: b"\x01"}

_PREFIX = b"\x19Ethereum Signed Message:\n"


@cache
def secp256k1() -> Any:
    """The library of the curve. It is loaded late: most servers hold no key, and recover no address."""
    return import_module("coincurve")


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
            self._key = secp256k1().PrivateKey(secret)
        except ValueError:
            raise SigningKeyError("a private key lies between 0 and the order of the curve") from None
        self.address = address_of_public_key(self._key.public_key.format(compressed=False))
        """The address with its checksum."""

    def sign(self, digest: bytes) -> bytes:
        """The signature of 32 bytes as messages carry it: r, s and v, which is 27 or 28, in 65 bytes."""
        signature: bytes = self._key.sign_recoverable(digest, hasher=None)
        return signature[:64] + _V[signature[64]]

    def sign_parity(self, digest: bytes) -> tuple[int, int, int]:
        """The signature of 32 bytes as transactions carry it: r, s and the parity, which is 0 or 1."""
        signature: bytes = self._key.sign_recoverable(digest, hasher=None)
        return int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]), signature[64]

    def __repr__(self) -> str:
        return f"SigningKey({self.address})"


class SignatureError(ValueError):
    """The bytes are not a valid signature; the text names the fault."""


def recover_address(digest: bytes, signature: bytes) -> str:
    """The checksummed address whose key signed the 32 bytes of `digest`; `signature` is r, s and v: 32, 32, 1
    bytes. Every well-formed signature has some signer, so compare the address with the expected one. Raises
    SignatureError for malformed bytes and for a high s: such a twin of each anybody can compute (EIP-2).
    """
    if len(digest) != _DIGEST_BYTES:
        raise SignatureError(f"the signed digest must have {_DIGEST_BYTES} bytes, and has {len(digest)}")
    parity = _parity(signature)
    try:
        key = secp256k1().PublicKey.from_signature_and_message(signature[:-1] + parity, digest, hasher=None)
    except ValueError:
        raise SignatureError("r of the signature is not a point of the curve") from None
    return address_of_public_key(key.format(compressed=False))


def _parity(signature: bytes) -> bytes:
    if len(signature) != _SIGNATURE_BYTES:
        raise SignatureError(f"a signature has {_SIGNATURE_BYTES} bytes, and this one {len(signature)}")
    r = int.from_bytes(signature[:_NUMBER_BYTES])
    s = int.from_bytes(signature[_NUMBER_BYTES:-1])
    parity = _PARITIES.get(signature[-1])
    if parity is None:
        raise SignatureError(f"v of the signature must be 0, 1, 27 or 28, and is {signature[-1]}")
    if not 0 < r < _CURVE_ORDER or not 0 < s < _CURVE_ORDER:
        raise SignatureError("r and s of the signature must lie between 0 and the order of the curve")
    if s > _CURVE_ORDER // 2:
        raise SignatureError("s of the signature must lie in the lower half of its range (EIP-2)")
    return parity


def personal_message_hash(message: bytes) -> bytes:
    """The 32 bytes that `personal_sign` signs: the message behind its prefix and length (EIP-191, 0x45)."""
    return keccak256(b"%b%d%b" % (_PREFIX, len(message), message))
