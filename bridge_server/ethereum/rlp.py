"""RLP, the encoding of transactions (Yellow Paper, B). An item has exactly one: all others are refused."""

from collections.abc import Sequence
from typing import TypeAlias

Item: TypeAlias = "bytes | Sequence[Item]"

MAX_DEPTH = 16  # the deepest nesting of lists; transactions need five

MAX_ITEMS = 32_768  # the most strings and lists; all the gas of a transaction pays for 21,000 (EIP-7825)

_STRING = 0x80
_LIST = 0xC0
_SHORT = 55  # the longest content whose length stands in the first byte

_STRING_HEADS = [bytes([_STRING + length]) for length in range(_SHORT + 1)]
_LIST_HEADS = [bytes([_LIST + length]) for length in range(_SHORT + 1)]


class RlpError(ValueError):
    """The bytes are not RLP, or not the shortest encoding of their value."""


def encode(item: Item) -> bytes:
    """The encoding of a string of bytes, or of a list."""
    if not isinstance(item, bytes):
        return encode_list(b"".join(map(encode, item)))
    length = len(item)
    if length == 1 and item[0] < _STRING:
        return item
    return (_STRING_HEADS[length] if length <= _SHORT else _long_head(_STRING, length)) + item


def encode_list(encoded_items: bytes) -> bytes:
    """The encoding of the list whose items, each encoded, are joined to these bytes."""
    length = len(encoded_items)
    head = _LIST_HEADS[length] if length <= _SHORT else _long_head(_LIST, length)
    return head + encoded_items


def decode(data: bytes) -> Item:
    """The string or list (as a Python list) that the bytes are the encoding of; raises RlpError."""
    whole: list[Item] = []
    open_lists = [(whole, len(data))]  # each with where it ends; the last is the innermost
    position = count = 0
    while open_lists:
        items, end = open_lists[-1]
        if position == end:
            open_lists.pop()
            continue
        content, after = _content(data, position, end)
        if data[position] < _LIST:
            string = data[content:after]
            if content > position and len(string) == 1 and string[0] < _STRING:
                raise RlpError(f"the single byte at byte {position} must stand for itself, without a length")
            items.append(string)
            position = after
        else:
            inner: list[Item] = []
            items.append(inner)
            open_lists.append((inner, after))
            position = content
        count += 1
        if count > MAX_ITEMS:
            raise RlpError(f"there are more than {MAX_ITEMS} items")
        if len(open_lists) > MAX_DEPTH + 1:
            raise RlpError(f"lists lie in one another more than {MAX_DEPTH} deep")
    if len(whole) != 1:
        raise RlpError(f"one item must be encoded, and there are {len(whole)}")
    return whole[0]


def number(value: int) -> bytes:
    """A number from 0 on as a string of bytes: big-endian without leading zeros, 0 is empty."""
    return value.to_bytes((value.bit_length() + 7) >> 3)


def number_of(item: Item) -> int:
    """The number that a string of bytes stands for; raises RlpError for a list and for leading zeros."""
    if not isinstance(item, bytes):
        raise RlpError("must be a number, and is a list")
    if item.startswith(b"\0"):
        raise RlpError("must be a number without leading zero bytes; zero is the empty string")
    return int.from_bytes(item)


def _long_head(kind: int, length: int) -> bytes:
    length_bytes = number(length)
    return bytes([kind + _SHORT + len(length_bytes)]) + length_bytes


def _content(data: bytes, start: int, limit: int) -> tuple[int, int]:
    """The begin and the end of the content of the item at `start`. The end is at most `limit`."""
    first = data[start]
    if first < _STRING:
        return start, start + 1
    length, content = first - (_STRING if first < _LIST else _LIST), start + 1
    if length > _SHORT:
        length_bytes = data[content : content + length - _SHORT]
        content += length - _SHORT
        length = int.from_bytes(length_bytes)
        if length <= _SHORT or length_bytes.startswith(b"\0"):
            raise RlpError(f"the length at byte {start} is not in its shortest form")
    if content + length > limit:
        raise RlpError(f"the item at byte {start} ends after the list that contains it")
    return content, content + length
