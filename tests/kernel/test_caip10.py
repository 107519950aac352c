"""Account ids: the examples of CAIP-10, and its grammar as a model."""

import re
import string
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.ethereum.address import checksummed, is_valid_checksum
from bridge_server.projects.caip10 import (
    Account,
    account_key,
    ethereum_account,
    parse_account,
    unproven_account_key,
    unproven_account_keys,
)
from tests.support.rows import each_row

ADDRESS = "0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
LOWER = ADDRESS.lower()
UPPER = "0x" + ADDRESS[2:].upper()

# CAIP-2 and CAIP-10, word for word.
CHAIN = "[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}"
ACCOUNT = f"{CHAIN}:[-.%a-zA-Z0-9]{{1,128}}"


def is_account(text: str) -> bool:
    """The rule of CAIP-10, and of Ethereum: digits, an address, and a checksum that holds if there is one."""
    if not re.fullmatch(ACCOUNT, text):
        return False
    namespace, reference, address = text.split(":")
    if namespace != "eip155":
        return True
    return (
        set(reference) <= set(string.digits)
        and len(address) == 42
        and address.startswith("0x")
        and set(address[2:]) <= set(string.hexdigits)
        and is_valid_checksum(address)
    )


def test_neither_chain_nor_case_change_the_key_of_an_ethereum_account() -> None:
    for chain, spelling in product(["1", "137", "0", "01", "9" * 32], [ADDRESS, LOWER, UPPER]):
        text = f"eip155:{chain}:{spelling}"
        assert account_key(text) == f"eip155:{LOWER}"
        assert parse_account(text) == Account(f"eip155:{LOWER}", f"eip155:{int(chain)}:{ADDRESS}")


def test_ids_of_other_namespaces_are_taken_to_the_letter() -> None:
    for text in (
        "bip122:000000000019d6689c085ae165831e93:128Lkh3S7CkDTBZ8W7BbpsN3YYizJMp8p6",
        "hedera:mainnet:0.0.1234567890-zbhlt",
        "a-1:_:%",
        f"{'a' * 8}:{'A' * 32}:{'.' * 128}",
        f"eip1559:1:{UPPER}",
    ):
        assert account_key(text) == text
        assert parse_account(text) == Account(text, text)


def test_an_address_is_answered_with_its_account_id() -> None:
    with pytest.raises(ValueError, match=f"is an address: write eip155:1:{ADDRESS}"):
        parse_account(ADDRESS)


@each_row(
    "text",
    [
        "", ":", "::", "cosmos", "cosmos:cosmoshub-3", "cosmos:cosmoshub-3:", "cosmos::abc",
        ":cosmoshub-3:abc", "cosmos:cosmoshub-3:abc:def", "ab:1:c", "abcdefghi:1:c", "Cosmos:1:c",
        f"abc:{'1' * 33}:c", f"abc:1:{'c' * 129}", "abc:1:c\n", " abc:1:c", "abc:1:c d", "abc:1:c/d",
        "abc:1:c_d", "abc:1:\N{ARABIC-INDIC DIGIT ONE}", "abc:é:c", "abc:1:\ud800", "abc:1:\x00",
        "abc:1:c\x00", "x" * 100_000, ":" * 100_000,
    ],
)  # fmt: skip
def test_a_malformed_account_id_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be an account id \(CAIP-10\): a namespace of 3 to 8"):
        account_key(text)


@each_row(
    "text",
    [
        "eip155:", "eip155:1", "eip155:1:", f"eip155::{LOWER}", f"eip155:mainnet:{LOWER}",
        f"eip155:0x1:{LOWER}", f"eip155:-1:{LOWER}", f"eip155:\N{ARABIC-INDIC DIGIT ONE}:{LOWER}",
        f"eip155:{'1' * 33}:{LOWER}", f"eip155:1:{LOWER[2:]}", f"eip155:1:0X{LOWER[2:]}",
        f"eip155:1:{LOWER[:-1]}", f"eip155:1:{LOWER}0", f"eip155:1:{LOWER[:-1]}g",
        f"eip155:1:{LOWER[:-1]}\N{FULLWIDTH DIGIT ONE}", f"eip155:1:{LOWER}\n",
        f"eip155:1:{LOWER[:-1]}\ud800", f"eip155:1:{LOWER[:-1]}\x00", "eip155:1:vitalik.eth",
    ],
)  # fmt: skip
def test_a_malformed_ethereum_account_is_refused_with_an_explanation(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be eip155, the chain id in decimal"):
        account_key(text)
    with pytest.raises(ValueError, match=r"must be eip155, the chain id in decimal"):
        parse_account(text)


def test_a_wrong_checksum_is_refused_every_time_and_never_corrected() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong checksum") as caught:
            account_key(f"eip155:1:{ADDRESS.replace('D', 'd')}")
        assert "0x" not in str(caught.value)


def test_an_account_needs_a_valid_chain_and_a_valid_address() -> None:
    for chain_id, address in ((-1, LOWER), (10**32, LOWER), (1, LOWER[2:]), (1, "1:0x")):
        with pytest.raises(ValueError, match="must be eip155"):
            ethereum_account(chain_id, address)


near_ids = st.from_regex(
    re.compile(rf"(eip155|{CHAIN}|[-a-z0-9]{{2,9}}:.{{0,33}}):([0-9]+:)?(0x)?[0-9a-fA-F.%_]*\n?")
)
ethereum_ids = st.builds(
    lambda chain, content, spell: f"eip155:{chain}:{spell('0x' + content.hex())}",
    st.integers(0, 10**33),
    st.binary(min_size=20, max_size=20),
    st.sampled_from([str, str.upper, checksummed, str.title, lambda text: "0x" + text[2:].upper()]),
)


@given(st.text() | near_ids | ethereum_ids | st.from_regex(ACCOUNT, fullmatch=True))
@example(f"eip155:1:{ADDRESS}")
def test_exactly_what_the_grammar_allows_is_accepted_and_keeps_its_key(text: str) -> None:
    if is_account(text):
        account = parse_account(text)
        assert account.key == account_key(text)
        assert parse_account(account.spelled) == account
    else:
        with pytest.raises(ValueError, match=r"."):
            account_key(text)


_MANY = [f"eip155:{number}:0x{'aB' * 20}" for number in range(100)]


def test_many_ethereum_accounts_have_the_keys_that_each_has() -> None:
    for texts in (_MANY, _MANY[:1]):
        assert unproven_account_keys(texts) == {text: unproven_account_key(text) for text in texts}


@each_row(
    "texts",
    [
        [], [""], ["\n"], ["", _MANY[0]], [_MANY[0], ""], [_MANY[0] + "\n"], ["\n".join(_MANY[:2])],
        [_MANY[0] + _MANY[1]], [_MANY[0][:-1]], [_MANY[0] + "0"], [*_MANY, "cosmos:hub:abc"],
        [_MANY[0].upper()], [_MANY[0][:-2] + "  "], [_MANY[0][:-1] + "g"], [_MANY[0][:-1] + "\u0661"],
    ],
)  # fmt: skip
def test_others_are_to_be_looked_at_one_by_one(texts: list[str]) -> None:
    assert unproven_account_keys(texts) is None
