"""DATA, QUANTITY and addresses: accepted and refused spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.address import HexError, address_of, data_of, hex_of, quantity, quantity_of
from tests.support.rows import each_row

CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"  # EIP-55
NOT_STRINGS = [None, 0, 1.5, True, b"0x00", ["0x00"], {"0x": "00"}]


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


def test_an_error_of_data_says_how_many_digits_are_needed() -> None:
    with pytest.raises(HexError, match="0x and 40 hexadecimal digits"):
        data_of("0x123", 20)


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
