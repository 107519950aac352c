"""Key derivation of keystores: a slow function from a passphrase to the cipher's key, against guessing.

Both functions run beside other threads. Their costs are bounded, because a file may come from anybody.
"""

import hashlib
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias

KEY_BYTES = 32

_MOST_ROUNDS = 10_000_000
_MOST_MEMORY_BYTES = 2**30
_MOST_STEPS = 2**26
_MOST_BLOCKS = 2**14


class CostError(ValueError):
    """The parameters are invalid, or need too much time or memory; the text names the fault."""


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """The parameters of RFC 7914: it takes 128·n·r bytes of memory, and time like n·r·p.

    Raises CostError when n is no power of two, or the whole too much: above 1 GiB, or 32 times the standard.
    """

    n: int
    r: int
    p: int

    def __post_init__(self) -> None:
        if self.n < 2 or self.n & (self.n - 1) or self.r < 1 or self.p < 1:
            raise CostError("n must be a power of two from 2 on, r and p at least 1")
        if (
            self.memory_bytes > _MOST_MEMORY_BYTES
            or self.n * self.r * self.p > _MOST_STEPS
            or self.r * self.p > _MOST_BLOCKS
        ):
            raise CostError(f"n = {self.n}, r = {self.r}, p = {self.p} ask for too much memory or time")

    @property
    def memory_bytes(self) -> int:
        return 128 * self.n * self.r


STANDARD_COST = ScryptCost(n=2**18, r=8, p=1)
"""The cost that geth uses: about a second and 256 MiB."""

LIGHT_COST = ScryptCost(n=2**12, r=8, p=6)
"""The cost of geth's `--lightkdf`: about a tenth of the time, and 4 MiB."""


@dataclass(frozen=True, slots=True)
class Scrypt:
    """RFC 7914."""

    cost: ScryptCost
    salt: bytes

    def key(self, passphrase: bytes) -> bytes:
        """The 32 bytes that follow from the passphrase. Raises CostError when there is too little memory."""
        try:
            return self._key(passphrase)
        except ValueError as error:  # all else that can be wrong is known to be right
            raise CostError(f"there are not {self.cost.memory_bytes >> 20} MiB of memory for it") from error

    def _key(self, passphrase: bytes) -> bytes:
        n, r, p = self.cost.n, self.cost.r, self.cost.p
        if n.bit_length() <= 16 * r:
            limit = self.cost.memory_bytes + 128 * r * (p + 2)
            return hashlib.scrypt(passphrase, salt=self.salt, n=n, r=r, p=p, maxmem=limit, dklen=KEY_BYTES)
        # RFC 7914 forbids these, and OpenSSL refuses them. The keystore's own test vector is one of them.
        # Such files are rare: the module that reads them, 0.7 MiB, is imported when there is one.
        scrypt = import_module("Crypto.Protocol.KDF").scrypt
        return bytes(scrypt(passphrase, self.salt, KEY_BYTES, N=n, r=r, p=p))


@dataclass(frozen=True, slots=True)
class Pbkdf2:
    """RFC 8018, with HMAC-SHA256. Raises CostError for no rounds, and for more than ten million."""

    rounds: int
    salt: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= _MOST_ROUNDS:
            raise CostError(f"c must lie between 1 and {_MOST_ROUNDS}, and is {self.rounds}")

    def key(self, passphrase: bytes) -> bytes:
        """The 32 bytes that follow from the passphrase."""
        return hashlib.pbkdf2_hmac("sha256", passphrase, self.salt, self.rounds, KEY_BYTES)


Kdf: TypeAlias = Scrypt | Pbkdf2
