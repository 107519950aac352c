"""Words that stand for a wallet (BIP-39), from the English list of the standard; and the many keys of one
seed (BIP-32), with the path on which wallets look for Ethereum's (BIP-44).
"""

import hashlib
import hmac
import re
from dataclasses import field
from functools import cache
from importlib import resources
from unicodedata import normalize

from bridge_server.ethereum.signing_key import secp256k1
from bridge_server.kernel.fields import near_words
from bridge_server.kernel.values import dataclass

DEVELOPMENT_MNEMONIC = " ".join(["test"] * 11 + ["junk"])
"""The words of everybody's development accounts: local nodes give them money."""

_WORD_BITS = 11
_COUNTS = (12, 15, 18, 21, 24)
_ROUNDS = 2048

HARDENED = 2**31  # the number that is added to an index which is written with an apostrophe

ACCOUNTS_PATH = "m/44'/60'/0'/0"
"""The path below which wallets look for accounts, from index 0 on (BIP-44; 60 is Ethereum)."""

_MASTER_KEY = b"Bitcoin seed"
_SEED_SIZES = range(16, 65)
_HALF = 32
_STEP = re.compile(r"(0|[1-9][0-9]{0,9})(['hH]?)", re.ASCII)


class MnemonicError(ValueError):
    """The words are not a valid mnemonic; the text names the fault."""


@cache
def listed_words() -> tuple[str, ...]:
    """The 2048 words of the list, in its order, which is the alphabet's. Most servers never need them."""
    words = resources.files("bridge_server.ethereum").joinpath("bip39_english.txt")
    return tuple(words.read_text("ascii").split())


@cache
def _numbers() -> dict[str, int]:
    return {word: number for number, word in enumerate(listed_words())}


def checked_mnemonic(text: str) -> str:
    """The words as the standard spells them: in lower case, with one space between. Raises MnemonicError."""
    words = normalize("NFKD", text).lower().split()
    if len(words) not in _COUNTS:
        raise MnemonicError(f"a mnemonic has 12, 15, 18, 21 or 24 words, and this one {len(words)}")
    bits = 0
    for place, word in enumerate(words, start=1):
        number = _numbers().get(word)
        if number is None:
            near = near_words(word, listed_words(), 3)
            hint = f": did you mean {' or '.join(near)}?" if near else ""
            raise MnemonicError(f"word {place}, {word!r}, is not in the list of BIP-39{hint}")
        bits = bits << _WORD_BITS | number
    checksum_bits = len(words) // 3
    entropy = (bits >> checksum_bits).to_bytes(len(words) * 4 // 3)
    if bits & 2**checksum_bits - 1 != _checksum(entropy):
        raise MnemonicError(
            "the checksum is wrong: all words are in the list, but one is not the right one, or their order"
        )
    return " ".join(words)


def mnemonic_seed(text: str, passphrase: str = "") -> bytes:
    """The 64 bytes that the words and the passphrase stand for. Raises MnemonicError."""
    salt = "mnemonic" + normalize("NFKD", passphrase)
    return hashlib.pbkdf2_hmac("sha512", checked_mnemonic(text).encode(), salt.encode(), _ROUNDS)


def _checksum(entropy: bytes) -> int:
    """One bit of the hash for each 32 bits of entropy: at most eight."""
    return hashlib.sha256(entropy).digest()[0] >> 8 - len(entropy) // 4


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
        key = secp256k1().PrivateKey(self.secret)
        parent = b"\0" + self.secret if index >= HARDENED else key.public_key.format()
        tweak, chain_code = _halves(self.chain_code, parent + index.to_bytes(4))
        try:
            return ExtendedKey(key.add(tweak).secret, chain_code)
        except ValueError:
            raise DerivationError("there is no key at this index: take the next") from None

    def descendant(self, path: str) -> "ExtendedKey":
        """The key at a path such as `m/44'/60'/0'/0/0`, from here. Raises DerivationError."""
        root, *steps = path.split("/")
        if root != "m":
            raise DerivationError(f"a path begins with m, such as {ACCOUNTS_PATH}, and this one is {path!r}")
        key = self
        for index in [_index(step) for step in steps]:
            key = key.child(index)
        return key


def master_key(seed: bytes) -> ExtendedKey:
    """The master key of a seed of 16 to 64 bytes. Raises DerivationError."""
    if len(seed) not in _SEED_SIZES:
        raise DerivationError(f"a seed has 16 to 64 bytes, and this one {len(seed)}")
    secret, chain_code = _halves(_MASTER_KEY, seed)
    try:
        return ExtendedKey(secp256k1().PrivateKey(secret).secret, chain_code)
    except ValueError:
        raise DerivationError("this seed stands for no key: take another") from None


def _halves(key: bytes, data: bytes) -> tuple[bytes, bytes]:
    digest = hmac.digest(key, data, "sha512")
    return digest[:_HALF], digest[_HALF:]


def _index(step: str) -> int:
    spelled = _STEP.fullmatch(step)
    if spelled is None or int(spelled[1]) >= HARDENED:
        raise DerivationError(
            f"a step of a path is a number below {HARDENED}, with ' behind it if it is hardened, not {step!r}"
        )
    return int(spelled[1]) + (HARDENED if spelled[2] else 0)
