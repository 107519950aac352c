"""BIP-39: the standard's list and vectors, and errors of malformed mnemonics."""

import hashlib
from importlib import resources
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.mnemonic import (
    MnemonicError,
    checked_mnemonic,
    listed_words,
    mnemonic_seed,
    new_mnemonic,
)
from tests.support.rows import each_row

VECTORS = orjson.loads((Path(__file__).parents[1] / "vectors" / "bip39.json").read_bytes())["vectors"]
DEVELOPMENT = "test test test test test test test test test test test junk"

vectors = pytest.mark.parametrize("vector", VECTORS, ids=[vector["entropy"] for vector in VECTORS])


def test_the_list_is_that_of_the_standard() -> None:
    file = resources.files("bridge_server.ethereum").joinpath("bip39_english.txt").read_bytes()

    digest = "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
    assert hashlib.sha256(file).hexdigest() == digest
    assert len(listed_words()) == 2048


@vectors
def test_entropy_has_the_words_of_the_standard(vector: dict[str, str]) -> None:
    assert new_mnemonic(bytes.fromhex(vector["entropy"])) == vector["words"]


@vectors
def test_words_have_the_seed_of_the_standard(vector: dict[str, str]) -> None:
    assert mnemonic_seed(vector["words"], "TREZOR").hex() == vector["seed"]


@given(st.sampled_from([16, 20, 24, 28, 32]).flatmap(lambda size: st.binary(min_size=size, max_size=size)))
def test_words_made_from_any_entropy_are_a_mnemonic(entropy: bytes) -> None:
    words = new_mnemonic(entropy)

    assert checked_mnemonic(words) == words
    assert len(words.split()) == len(entropy) * 3 // 4


@each_row("size", [0, 12, 15, 17, 33, 64])
def test_entropy_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(MnemonicError, match=f"and has {size}$"):
        new_mnemonic(bytes(size))


@each_row("text", [DEVELOPMENT.upper(), f"  {DEVELOPMENT}\n", DEVELOPMENT.replace(" ", "\t ")])
def test_spaces_and_capitals_do_not_matter(text: str) -> None:
    assert checked_mnemonic(text) == DEVELOPMENT
    assert mnemonic_seed(text) == mnemonic_seed(DEVELOPMENT)


def test_a_passphrase_changes_the_seed_however_it_is_composed() -> None:
    composed, decomposed = "p\u00e4ss", "pa\u0308ss"

    assert mnemonic_seed(DEVELOPMENT, composed) == mnemonic_seed(DEVELOPMENT, decomposed)
    assert mnemonic_seed(DEVELOPMENT, composed) != mnemonic_seed(DEVELOPMENT)


@each_row("count", [0, 1, 11, 13, 25])
def test_a_wrong_number_of_words_is_refused(count: int) -> None:
    with pytest.raises(MnemonicError, match=f"and this one {count}$"):
        checked_mnemonic(" ".join(["test"] * count))


def test_an_unknown_word_is_named_with_similar_words() -> None:
    with pytest.raises(
        MnemonicError, match=r"word 3, 'tset', is not in the list .*: did you mean .*\btest\b.*\?$"
    ):
        checked_mnemonic(DEVELOPMENT.replace("test test test", "test test tset", 1))


def test_an_unknown_word_without_similar_words_is_named_alone() -> None:
    with pytest.raises(MnemonicError, match=r"word 12, 'qqqqqqqq', is not in the list of BIP-39$"):
        checked_mnemonic(DEVELOPMENT.replace("junk", "qqqqqqqq"))


@each_row("words", [" ".join(["test"] * 12), f"junk {' '.join(['test'] * 11)}"])
def test_words_with_a_wrong_checksum_are_refused(words: str) -> None:
    with pytest.raises(MnemonicError, match="checksum is wrong"):
        checked_mnemonic(words)


def test_one_last_word_in_sixteen_fits_eleven_others() -> None:
    def fits(last: str) -> bool:
        try:
            checked_mnemonic(f"{' '.join(['test'] * 11)} {last}")
        except MnemonicError:
            return False
        return True

    assert sum(map(fits, listed_words())) == 2048 // 16
