"""Checksums of addresses: the test cases of EIP-55, and its text as a model."""

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.address import checksummed, is_valid_checksum
from bridge_server.ethereum.keccak import keccak256
from tests.support.rows import each_row

MIXED = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]
ONE_CASE = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
]

addresses = st.binary(min_size=20, max_size=20).map(lambda content: f"0x{content.hex()}")


def modelled(address: str) -> str:
    """EIP-55 in its own words: a letter is a capital if that digit of the hash is at least 8."""
    digits = address[2:]
    hash_digits = keccak256(digits.encode()).hex()
    spelled = (
        digit.upper() if int(mark, 16) >= 8 else digit
        for digit, mark in zip(digits, hash_digits, strict=False)
    )
    return "0x" + "".join(spelled)


@each_row("address", MIXED + ONE_CASE)
def test_the_published_addresses_get_their_capitals(address: str) -> None:
    assert checksummed(address.lower()) == address
    assert is_valid_checksum(address)


@given(addresses)
def test_any_address_is_spelled_as_the_proposal_says(address: str) -> None:
    assert checksummed(address) == modelled(address)


@each_row("address", MIXED)
def test_digits_in_one_case_carry_no_checksum(address: str) -> None:
    assert is_valid_checksum(address.lower())
    assert is_valid_checksum("0x" + address[2:].upper())


@each_row("address", MIXED)
def test_a_letter_in_the_wrong_case_is_noticed(address: str) -> None:
    for position in range(2, 42):
        swapped = address[:position] + address[position].swapcase() + address[position + 1 :]

        assert is_valid_checksum(swapped) is (swapped == address)


def test_an_address_without_letters_is_its_own_checksum() -> None:
    assert checksummed("0x" + "0123456789" * 4) == "0x" + "0123456789" * 4
    assert is_valid_checksum("0x" + "0" * 40)
