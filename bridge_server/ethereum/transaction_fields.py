"""The items of a decoded transaction, read in order, each by its type."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from bridge_server.ethereum.hex_data import ADDRESS_BYTES, hex_of
from bridge_server.ethereum.rlp import Item, RlpError, number_of
from bridge_server.ethereum.transactions import STORAGE_KEY_BYTES, AccessListEntry, check_range

Value = TypeVar("Value")


class TransactionFields:
    """Each method takes the next item; its RlpError or TransactionError begins with the field's name."""

    def __init__(self, name: str, item: Item, *counts: int) -> None:
        """Read the list `item`; raise RlpError unless it is one, with as many items as one of `counts`."""
        items = _list(name, item)
        if counts and len(items) not in counts:
            expected = " or ".join(map(str, counts))
            raise RlpError(f"{name} must have {expected} items, and has {len(items)}")
        self._items: Iterator[Item] = iter(items)

    def number(self, name: str, maximum: int, minimum: int = 0) -> int:
        """A number in a range."""
        try:
            number = number_of(next(self._items))
        except RlpError as error:
            raise RlpError(f"{name} {error}") from None
        check_range(name, number, maximum, minimum)
        return number

    def data(self, name: str, size: int | None = None) -> bytes:
        """Bytes: `size` of them, if it is given."""
        return _bytes(name, next(self._items), size)

    def address(self, name: str) -> str:
        """An address, in lower case."""
        return hex_of(self.data(name, ADDRESS_BYTES))

    def optional_address(self, name: str) -> str | None:
        """An address, or None for the empty string."""
        data = self.data(name)
        return hex_of(_bytes(name, data, ADDRESS_BYTES)) if data else None

    def list_of(self, name: str, read: Callable[[str, Item], Value]) -> tuple[Value, ...]:
        """A list, each of whose items is read with its name."""
        items = _list(name, next(self._items))
        return tuple(read(f"{name}[{position}]", item) for position, item in enumerate(items))

    def bytes_list(self, name: str, size: int) -> tuple[bytes, ...]:
        """A list of strings of `size` bytes."""
        return self.list_of(name, lambda place, item: _bytes(place, item, size))

    def access_list(self) -> tuple[AccessListEntry, ...]:
        """Addresses, each with the storage keys that are used of it (EIP-2930)."""
        return self.list_of("access_list", _access_list_entry)


def _access_list_entry(place: str, item: Item) -> AccessListEntry:
    fields = TransactionFields(place, item, 2)
    return AccessListEntry(
        fields.address(f"{place}.address"), fields.bytes_list(f"{place}.storage_keys", STORAGE_KEY_BYTES)
    )


def _list(name: str, item: Item) -> Sequence[Item]:
    if isinstance(item, bytes):
        raise RlpError(f"{name} must be a list, and is a string of bytes")
    return item


def _bytes(name: str, item: Item, size: int | None) -> bytes:
    if not isinstance(item, bytes):
        raise RlpError(f"{name} must be a string of bytes, and is a list")
    if size is not None and len(item) != size:
        raise RlpError(f"{name} must have {size} bytes, and has {len(item)}")
    return item
