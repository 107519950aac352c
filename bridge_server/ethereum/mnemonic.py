"""Words that stand for a wallet (BIP-39), from the English list of the standard."""

import hashlib
from functools import cache
from importlib import resources
from unicodedata import normalize

from bridge_server.kernel.near_words import near_words

DEVELOPMENT_MNEMONIC = " ".join(["test"] * 11 + ["junk"])
"""The words of everybody's development accounts: local nodes give them money."""

_WORD_BITS = 11
_COUNTS = (12, 15, 18, 21, 24)
_ENTROPY_SIZES = tuple(count * 4 // 3 for count in _COUNTS)
_ROUNDS = 2048


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


def new_mnemonic(entropy: bytes) -> str:
    """The 12 to 24 words of 16, 20, 24, 28 or 32 random bytes. Raises MnemonicError for other sizes."""
    if len(entropy) not in _ENTROPY_SIZES:
        raise MnemonicError(f"the entropy must have 16, 20, 24, 28 or 32 bytes, and has {len(entropy)}")
    checksum_bits = len(entropy) // 4
    bits = int.from_bytes(entropy) << checksum_bits | _checksum(entropy)
    count = (len(entropy) * 8 + checksum_bits) // _WORD_BITS
    numbers = [bits >> _WORD_BITS * place & 2**_WORD_BITS - 1 for place in reversed(range(count))]
    return " ".join(listed_words()[number] for number in numbers)


def checked_mnemonic(text: str) -> str:
    """The words as the standard spells them: in lower case, with one space between. Raises MnemonicError."""
    words = normalize("NFKD", text).lower().split()
    if len(words) not in _COUNTS:
        raise MnemonicError(f"a mnemonic has 12, 15, 18, 21 or 24 words, and this one {len(words)}")
    bits = 0
    for place, word in enumerate(words, start=1):
        bits = bits << _WORD_BITS | _number(word, place)
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


def _number(word: str, place: int) -> int:
    number = _numbers().get(word)
    if number is None:
        near = near_words(word, listed_words(), 3)
        hint = f": did you mean {' or '.join(near)}?" if near else ""
        raise MnemonicError(f"word {place}, {word!r}, is not in the list of BIP-39{hint}")
    return number
