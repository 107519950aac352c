"""Many keys from one seed (BIP-32), and the path on which wallets look for Ethereum's (BIP-44)."""

import hmac
import re
from dataclasses import dataclass, field

from coincurve import PrivateKey

HARDENED = 2**31
"""The number that is added to an index which is written with an apostrophe."""

ACCOUNTS_PATH = "m/44'/60'/0'/0"
"""The path below which wallets look for accounts, from index 0 on (BIP-44; 60 is Ethereum)."""

_MASTER_KEY = b"Bitcoin seed"
_SEED_SIZES = range(16, 65)
_HALF = 32
_STEP = re.compile(r"(0|[1-9][0-9]{0,9})(['hH]?)", re.ASCII)


class DerivationError(ValueError):
    """The seed or the path is invalid, or has no key; the text names the fault."""


@dataclass(frozen=True, slots=True)
class ExtendedKey:
    """A private key of 32 bytes, and the chain code from which, with it, its children follow."""

    secret: bytes = field(repr=False)
    chain_code: bytes = field(repr=False)

    def child(self, index: int) -> "ExtendedKey":
        """The child at the index, which is `HARDENED` or more for a hardened one. Raises DerivationError."""
        if not 0 <= index < 2 * HARDENED:
            raise DerivationError(f"an index is from 0 to {2 * HARDENED - 1}, and this one is {index}")
        key = PrivateKey(self.secret)
        parent = b"\0" + self.secret if index >= HARDENED else key.public_key.format()
        tweak, chain_code = _halves(self.chain_code, parent + index.to_bytes(4))
        try:
            return ExtendedKey(key.add(tweak).secret, chain_code)
        except ValueError:
            raise DerivationError("there is no key at this index: take the next") from None

    def descendant(self, path: str) -> "ExtendedKey":
        """The key at a path such as `m/44'/60'/0'/0/0`, from here. Raises DerivationError."""
        key = self
        for index in _indexes(path):
            key = key.child(index)
        return key


def master_key(seed: bytes) -> ExtendedKey:
    """The master key of a seed of 16 to 64 bytes. Raises DerivationError."""
    if len(seed) not in _SEED_SIZES:
        raise DerivationError(f"a seed has 16 to 64 bytes, and this one {len(seed)}")
    secret, chain_code = _halves(_MASTER_KEY, seed)
    try:
        return ExtendedKey(PrivateKey(secret).secret, chain_code)
    except ValueError:
        raise DerivationError("this seed stands for no key: take another") from None


def _halves(key: bytes, data: bytes) -> tuple[bytes, bytes]:
    digest = hmac.digest(key, data, "sha512")
    return digest[:_HALF], digest[_HALF:]


def _indexes(path: str) -> list[int]:
    root, *steps = path.split("/")
    if root != "m":
        raise DerivationError(f"a path begins with m, such as {ACCOUNTS_PATH}, and this one is {path!r}")
    return [_index(step) for step in steps]


def _index(step: str) -> int:
    spelled = _STEP.fullmatch(step)
    if spelled is None or int(spelled[1]) >= HARDENED:
        raise DerivationError(
            f"a step of a path is a number below {HARDENED}, with ' behind it if it is hardened, not {step!r}"
        )
    return int(spelled[1]) + (HARDENED if spelled[2] else 0)
