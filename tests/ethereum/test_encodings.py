"""DATA, QUANTITY, addresses with their checksums, and RLP: spellings that are taken and refused."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.ethereum import rlp
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
from tests.support.rows import each_row

NOT_STRINGS = [None, 0, 1.5, True, b"0x00", ["0x00"], {"0x": "00"}]
MIXED = [  # as in EIP-55
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


@given(st.binary(), st.integers(0, 2**256 - 1))
def test_bytes_come_back_from_their_data_and_numbers_from_their_quantity(content: bytes, number: int) -> None:
    assert data_of(hex_of(content)) == data_of("0x" + content.hex().upper()) == content
    assert quantity_of(quantity(number)) == quantity_of(f"0x{number:X}") == number


@each_row(
    ("read", "text", "reason"),
    [
        *(
            (data_of, text, "must be DATA")
            for text in (
                *("", "0x0", "0X00", "00", "x00", "0xg0", "0x 00", "0x00 ", "0x0 0", "0x00\n", "0x\t00"),
                *("0x004200f", "xyz", "0x٠٠", "0x０0", "0x\ud800\ud800", " 0x00", "0x_00", "0x0x00", "-0x00"),
                *NOT_STRINGS,
            )
        ),
        *(
            (quantity_of, text, "must be a QUANTITY")
            for text in (
                *("", "0x", "0x0400", "0x00", "ff", "0X1", "0xg", "-0x1", "0x-1", "0x1 ", " 0x1", "0x1\n"),
                *("0x1_0", "0x١", "0x1.0", "0x" + "1" * 65, "0x" + "1" * 100_000),
                *NOT_STRINGS,
            )
        ),
        *(
            (address_of, text, "must be an address")
            for text in ("0x", MIXED[0][:-1], MIXED[0] + "0", MIXED[0][2:], MIXED[0] + "\n", *NOT_STRINGS)
        ),
        (address_of, MIXED[0].swapcase().replace("X", "x"), f"EIP-55.*{MIXED[0]}"),
    ],
)
def test_other_spellings_are_refused(read: Callable[[object], object], text: object, reason: str) -> None:
    with pytest.raises(HexError, match=reason):
        read(text)


@each_row("size", [0, 1, 20, 32])
def test_data_of_a_size_has_that_many_bytes(size: int) -> None:
    assert data_of("0x" + "ab" * size, size) == b"\xab" * size
    with pytest.raises(HexError, match=rf"must have {size} bytes .* and has {size + 1}$"):
        data_of("0x" + "ab" * (size + 1), size)
    with pytest.raises(HexError, match=f"0x and {2 * size} hexadecimal digits"):
        data_of("0x123", size)


def test_published_quantities() -> None:
    for text, number in (("0x0", 0), ("0x41", 65), ("0x400", 1024), ("0x" + "f" * 64, 2**256 - 1)):
        assert (quantity_of(text), quantity(number)) == (number, text)


def test_published_addresses_get_their_capitals_and_one_in_the_wrong_case_is_noticed() -> None:
    for address in MIXED + ONE_CASE:
        assert checksummed(address.lower()) == address
        assert is_valid_checksum(address)
    for address in MIXED:
        for position in range(2, 42):
            swapped = address[:position] + address[position].swapcase() + address[position + 1 :]
            assert is_valid_checksum(swapped) is (swapped == address)
        for text in (address, address.lower(), "0x" + address[2:].upper()):
            assert address_of(text) == address.lower()


# RLP: the Yellow Paper's and the wiki's examples, round trips, and every encoding that is not the one.

items = st.recursive(st.binary(max_size=70), lambda inner: st.lists(inner, max_size=6), max_leaves=30)


def test_published_examples() -> None:
    """As ethereum.org's page on RLP and the tests of Ethereum's clients show them."""
    lorem = b"Lorem ipsum dolor sit amet, consectetur adipisicing elit"
    examples: list[tuple[rlp.Item, str]] = [
        (b"dog", "83646f67"),
        (b"", "80"),
        ([], "c0"),
        (b"\x00", "00"),
        (b"\x7f", "7f"),
        (b"\x80", "8180"),
        ([[], [[]], [[], [[]]]], "c7c0c1c0c3c0c1c0"),
        (lorem, "b838" + lorem.hex()),
        ([b"a" * 54], "f7b6" + "61" * 54),
        ([b"a" * 55], "f838b7" + "61" * 55),
        (b"a" * 55, "b7" + "61" * 55),
        (b"a" * 256, "b90100" + "61" * 256),
        (b"a" * 65_536, "ba010000" + "61" * 65_536),
    ]
    for item, encoded in examples:
        assert (rlp.encode(item).hex(), rlp.decode(bytes.fromhex(encoded))) == (encoded, item)


@given(items)
def test_an_item_comes_back_from_its_encoding_and_not_from_a_part_of_it(item: rlp.Item) -> None:
    encoded = rlp.encode(item)
    assert rlp.decode(encoded) == item
    for length in range(len(encoded)):
        with pytest.raises(rlp.RlpError):
            rlp.decode(encoded[:length])


@given(st.binary(max_size=80))
@example(b"\xb8\x38" + bytes(56))
def test_any_bytes_are_the_one_encoding_of_what_they_mean_or_refused(data: bytes) -> None:
    with suppress(rlp.RlpError):
        assert rlp.encode(rlp.decode(data)) == data


@each_row(
    ("encoded", "reason"),
    [
        ("", "one item must be encoded, and there are 0"),
        ("817f", "stand for itself"),
        ("c28100", "stand for itself"),
        ("b800", "shortest form"),
        ("b837" + "61" * 55, "shortest form"),
        ("b90038" + "61" * 56, "shortest form"),
        ("f837" + "00" * 55, "shortest form"),
        ("bf00ffffffffffffff", "shortest form"),
        ("bfffffffffffffffff", "ends after"),
        ("83646f", "ends after"),
        ("c28364", "ends after"),
        ("8080", "and there are 2"),
    ],
)
def test_an_encoding_that_is_not_canonical_is_refused(encoded: str, reason: str) -> None:
    with pytest.raises(rlp.RlpError, match=reason):
        rlp.decode(bytes.fromhex(encoded))


def test_lists_lie_in_lists_only_so_deep_and_have_only_so_many_items() -> None:
    deepest: rlp.Item = b""
    for _ in range(rlp.MAX_DEPTH):
        deepest = [deepest]
    assert rlp.decode(rlp.encode(deepest)) == deepest
    with pytest.raises(rlp.RlpError, match="more than 16 deep"):
        rlp.decode(rlp.encode([deepest]))

    most = rlp.encode_list(b"\x01" * (rlp.MAX_ITEMS - 1))
    assert len(rlp.decode(most)) == rlp.MAX_ITEMS - 1
    with pytest.raises(rlp.RlpError, match=f"more than {rlp.MAX_ITEMS} items"):
        rlp.decode(rlp.encode_list(b"\xc0" * rlp.MAX_ITEMS))


@given(st.integers(0, 2**300))
def test_numbers_come_back(value: int) -> None:
    encoded = rlp.number(value)

    assert rlp.number_of(encoded) == value
    assert not encoded.startswith(b"\0")


def test_a_number_is_no_list_and_has_no_leading_zeros() -> None:
    for encoded in (b"\0", b"\0\1", bytes(32)):
        with pytest.raises(rlp.RlpError, match="leading zero"):
            rlp.number_of(encoded)
    with pytest.raises(rlp.RlpError, match="is a list"):
        rlp.number_of([b"\1"])
