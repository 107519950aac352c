"""RLP: the Yellow Paper's and the wiki's examples, round trips, and every encoding that is not the one."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.ethereum import rlp
from tests.support.rows import each_row

LOREM = b"Lorem ipsum dolor sit amet, consectetur adipisicing elit"
# As ethereum.org's page on RLP and the tests of Ethereum's clients show them.
EXAMPLES: list[tuple[rlp.Item, str]] = [
    (b"dog", "83646f67"),
    ([b"cat", b"dog"], "c88363617483646f67"),
    (b"", "80"),
    ([], "c0"),
    (b"\x00", "00"),
    (b"\x0f", "0f"),
    (b"\x7f", "7f"),
    (b"\x80", "8180"),
    (b"\x04\x00", "820400"),
    ([[], [[]], [[], [[]]]], "c7c0c1c0c3c0c1c0"),
    (LOREM, "b838" + LOREM.hex()),
    ([b"a" * 54], "f7b6" + "61" * 54),
    ([b"a" * 55], "f838b7" + "61" * 55),
    (b"a" * 55, "b7" + "61" * 55),
    (b"a" * 256, "b90100" + "61" * 256),
    (b"a" * 65_536, "ba010000" + "61" * 65_536),
    ([b"", b"abc", [b"\x05"]], "c78083616263c105"),
]
items = st.recursive(st.binary(max_size=70), lambda inner: st.lists(inner, max_size=6), max_leaves=30)


def modelled(item: rlp.Item) -> bytes:
    """RLP in the words of the Yellow Paper."""
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < 128 else modelled_head(128, item) + item
    joined = b"".join(modelled(element) for element in item)
    return modelled_head(192, joined) + joined


def modelled_head(offset: int, content: bytes) -> bytes:
    if len(content) < 56:
        return bytes([offset + len(content)])
    length = len(content).to_bytes(8).lstrip(b"\0")
    return bytes([offset + 55 + len(length)]) + length


@each_row(("item", "encoded"), EXAMPLES)
def test_published_examples(item: rlp.Item, encoded: str) -> None:
    assert rlp.encode(item).hex() == encoded
    assert rlp.decode(bytes.fromhex(encoded)) == item


@given(items)
def test_an_item_comes_back_from_the_encoding_that_the_paper_gives_it(item: rlp.Item) -> None:
    encoded = rlp.encode(item)

    assert encoded == modelled(item)
    assert rlp.decode(encoded) == item


@given(st.binary(max_size=80))
@example(b"\xb8\x38" + bytes(56))
def test_any_bytes_are_the_one_encoding_of_what_they_mean_or_refused(data: bytes) -> None:
    with suppress(rlp.RlpError):
        assert rlp.encode(rlp.decode(data)) == data


@given(items)
def test_an_encoding_that_ends_too_soon_is_refused(item: rlp.Item) -> None:
    encoded = rlp.encode(item)

    for length in range(len(encoded)):
        with pytest.raises(rlp.RlpError):
            rlp.decode(encoded[:length])


@each_row(
    ("encoded", "reason"),
    [
        ("", "one item must be encoded, and there are 0"),
        ("8100", "stand for itself"),
        ("817f", "stand for itself"),
        ("c28100", "stand for itself"),
        ("b800", "shortest form"),
        ("b837" + "61" * 55, "shortest form"),
        ("b90038" + "61" * 56, "shortest form"),
        ("f800", "shortest form"),
        ("f837" + "00" * 55, "shortest form"),
        ("f90038" + "00" * 56, "shortest form"),
        ("bf00ffffffffffffff", "shortest form"),
        ("bfffffffffffffffff", "ends after"),
        ("ffffffffffffffffff", "ends after"),
        ("83646f", "ends after"),
        ("c382646f67", "one item must be encoded, and there are 2"),
        ("c28364", "ends after"),
        ("c1b8", "shortest form"),
        ("c3b90038", "shortest form"),
        ("8080", "and there are 2"),
        ("c000", "and there are 2"),
    ],
)
def test_an_encoding_that_is_not_canonical_is_refused(encoded: str, reason: str) -> None:
    with pytest.raises(rlp.RlpError, match=reason):
        rlp.decode(bytes.fromhex(encoded))


def test_lists_lie_in_lists_only_so_deep() -> None:
    deepest: rlp.Item = b""
    for _ in range(rlp.MAX_DEPTH):
        deepest = [deepest]

    assert rlp.decode(rlp.encode(deepest)) == deepest
    with pytest.raises(rlp.RlpError, match="more than 16 deep"):
        rlp.decode(rlp.encode([deepest]))


def test_only_so_many_items_are_read() -> None:
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
