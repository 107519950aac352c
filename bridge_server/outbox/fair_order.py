"""A fair order of waiting items: by the address of a client first, then by subject, then by host."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class FairOrder(Generic[Item]):
    """Waiting items, by paths of keys. Every path has the length `depth`.

    On each level every second turn goes to the newest key that had no turn yet. The other turns go to the key
    whose last turn is longest ago and to the oldest key that had no turn. So a new key is served before
    thousands that came at once, and each of these is served as well.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._root = _Level()

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, path: Sequence[Hashable], item: Item, *, had_a_turn: bool = False) -> None:
        """Let the item wait; an item that waits under this path already is replaced."""
        level = self._root
        for key in path[:-1]:
            level = level.level(key, had_a_turn)
        level.put(path[-1], item, had_a_turn)

    def take(self) -> Item | None:
        """Remove and return the next item in the fair order; None when nothing waits."""
        if not self._root:
            return None
        item: Item = _take(self._root, self._depth)
        return item


class _Level:
    __slots__ = ("_newcomers", "_regulars", "_turn")

    def __init__(self) -> None:
        self._newcomers: OrderedDict[Hashable, Any] = OrderedDict()
        self._regulars: OrderedDict[Hashable, Any] = OrderedDict()
        self._turn = 0

    def __bool__(self) -> bool:
        return bool(self._newcomers or self._regulars)

    def level(self, key: Hashable, had_a_turn: bool) -> "_Level":
        found = self._newcomers.get(key) or self._regulars.get(key)
        if found is None:
            found = _Level()
            self.put(key, found, had_a_turn)
        next_level: _Level = found
        return next_level

    def put(self, key: Hashable, value: object, had_a_turn: bool) -> None:
        place = self._newcomers if key in self._newcomers else self._regulars
        if key not in place and not had_a_turn:
            place = self._newcomers
        place[key] = value

    def next(self) -> tuple[Hashable, Any]:
        self._turn = (self._turn + 1) % 4
        if self._regulars and (self._turn == 2 or not self._newcomers):
            return self._regulars.popitem(last=False)
        return self._newcomers.popitem(last=self._turn != 0)


def _take(level: _Level, depth: int) -> Any:
    key, value = level.next()
    if depth == 1:
        return value
    item = _take(value, depth - 1)
    if value:
        level.put(key, value, had_a_turn=True)
    return item
