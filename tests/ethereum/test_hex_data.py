"""DATA, QUANTITY and addresses: spellings that are taken and refused, and the checksums of EIP-55."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.address import (
    HexError,
    address_of,
    checksummed,
    data_of,
    hex_of,
    is_valid_checksum,
    quantity,
    quantity_of,
)
from bridge_server.ethereum.keccak import keccak256
from tests.support.rows import each_row

CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"  # EIP-55
NOT_STRINGS = [None, 0, 1.5, True, b"0x00", ["0x00"], {"0x": "00"}]
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


@given(st.binary())
def test_bytes_come_back_from_their_data(content: bytes) -> None:
    assert data_of(hex_of(content)) == content
    assert data_of("0x" + content.hex().upper()) == content


@each_row(
    "text",
    [
        *("", "0x0", "0X00", "00", "x00", "0xg0", "0x 00", "0x00 ", "0x0 0", "0x00\n", "0x\t00"),
        *("0x004200f", "xyz", "0x٠٠", "0x０0", "0x\ud800\ud800", " 0x00", "0x_00", "0x0x00", "-0x00"),
        *NOT_STRINGS,
    ],
)
def test_data_has_a_prefix_and_two_digits_a_byte(text: object) -> None:
    with pytest.raises(HexError, match="must be DATA"):
        data_of(text)


@each_row("size", [0, 1, 20, 32])
def test_data_of_a_size_has_that_many_bytes(size: int) -> None:
    assert data_of("0x" + "ab" * size, size) == b"\xab" * size
    with pytest.raises(HexError, match=rf"must have {size} bytes .* and has {size + 1}$"):
        data_of("0x" + "ab" * (size + 1), size)
    with pytest.raises(HexError, match=f"0x and {2 * size} hexadecimal digits"):
        data_of("0x123", size)


@given(st.integers(0, 2**256 - 1))
def test_numbers_come_back_from_their_quantity(number: int) -> None:
    assert quantity_of(quantity(number)) == number
    assert quantity_of("0x" + f"{number:X}") == number


@each_row(("text", "number"), [("0x0", 0), ("0x41", 65), ("0x400", 1024), ("0x" + "f" * 64, 2**256 - 1)])
def test_published_quantities(text: str, number: int) -> None:
    assert quantity_of(text) == number
    assert quantity(number) == text


@each_row(
    "text",
    [
        *(
            "0x",
            "0x0400",
            "0x00",
            "ff",
            "0X1",
            "0xg",
            "-0x1",
            "0x-1",
            "0x1 ",
            " 0x1",
            "0x1\n",
            "0x1_0",
            "0x١",
        ),
        *("", "1", "0x1.0", "0x" + "1" * 65, "0x" + "1" * 100_000),
        *NOT_STRINGS,
    ],
)
def test_a_quantity_has_a_prefix_and_no_leading_zeros(text: object) -> None:
    with pytest.raises(HexError, match="must be a QUANTITY"):
        quantity_of(text)


@each_row(
    "text",
    [CHECKSUMMED, CHECKSUMMED.lower(), "0x" + CHECKSUMMED[2:].upper()],
    ids=["mixed", "lower", "upper"],
)
def test_an_address_is_taken_in_all_its_spellings(text: str) -> None:
    assert address_of(text) == CHECKSUMMED.lower()


def test_a_wrong_checksum_is_noticed_and_the_right_one_shown() -> None:
    with pytest.raises(HexError, match=f"EIP-55.*{CHECKSUMMED}"):
        address_of(CHECKSUMMED.swapcase().replace("X", "x"))


@each_row(
    "text", ["0x", CHECKSUMMED[:-1], CHECKSUMMED + "0", CHECKSUMMED[2:], CHECKSUMMED + "\n", *NOT_STRINGS]
)
def test_an_address_has_forty_digits(text: object) -> None:
    with pytest.raises(HexError, match="must be an address"):
        address_of(text)


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
def test_a_letter_in_the_wrong_case_is_noticed_unless_all_have_one_case(address: str) -> None:
    for position in range(2, 42):
        swapped = address[:position] + address[position].swapcase() + address[position + 1 :]

        assert is_valid_checksum(swapped) is (swapped == address)
    assert is_valid_checksum(address.lower())
    assert is_valid_checksum("0x" + address[2:].upper())
