"""A bounded memory of what was read. The store stays the truth: a touched key is forgotten at once."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from bridge_server.kernel.signals import Key

_ENTRY_OVERHEAD_BYTES = 400


@dataclass(frozen=True, slots=True)
class Cached:
    """Bytes that hold until the key is touched, or until `expires_at_ms`; None means «there, but empty»."""

    value: bytes | None
    expires_at_ms: int
    owner: Key | None = None
    """Holds only until this key is touched, too."""

    @property
    def size_bytes(self) -> int:
        overhead = _ENTRY_OVERHEAD_BYTES if self.owner is None else 2 * _ENTRY_OVERHEAD_BYTES
        return overhead + len(self.value or b"")


class ReadCache:
    """Keeps the values read most recently, up to `capacity_bytes` in all.

    Values may have owners, which are keys of the kinds `owner_kinds`.
    """

    def __init__(self, capacity_bytes: int, owner_kinds: Collection[str] = ()) -> None:
        self._capacity_bytes = capacity_bytes
        self._owner_kinds = frozenset(owner_kinds)
        self._size_bytes = 0
        self._entries: OrderedDict[Key, Cached] = OrderedDict()
        self._loads: dict[Key, object] = {}
        self._owned: dict[Key, set[Key]] = {}
        self._touched_owners = 0

    def get(self, key: Key, now_ms: int) -> Cached | None:
        """What is remembered and still holds."""
        entry = self._entries.get(key)
        if entry is None or entry.expires_at_ms <= now_ms:
            return None
        self._entries.move_to_end(key)
        return entry

    async def load(self, key: Key, read: Callable[[], Awaitable[Cached]]) -> Cached:
        """Read, and remember the result unless the key was touched meanwhile: then it may be the past.

        Who owns it is known only afterwards: a touch of any owner counts as the touch of this one.
        """
        ticket = self._loads.setdefault(key, object())  # one for all that read before the next touch
        touched_owners = self._touched_owners
        try:
            entry = await read()
            is_past = entry.owner is not None and self._touched_owners != touched_owners
            if self._loads.get(key) is ticket and not is_past:
                self._remember(key, entry)
            return entry
        finally:
            if self._loads.get(key) is ticket:
                del self._loads[key]

    def forget(self, key: Key) -> None:
        """Drop what is remembered of the key, and distrust what is being read of it."""
        self._loads.pop(key, None)
        if key in self._entries:
            self._drop(key)
        if key[0] in self._owner_kinds:
            self._touched_owners += 1
            for owned in self._owned.pop(key, ()):
                self._drop(owned)

    def _remember(self, key: Key, entry: Cached) -> None:
        if key in self._entries:
            self._drop(key)
        self._entries[key] = entry
        self._size_bytes += entry.size_bytes
        if entry.owner is not None:
            self._owned.setdefault(entry.owner, set()).add(key)
        while self._size_bytes > self._capacity_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key)
        self._size_bytes -= entry.size_bytes
        siblings = self._owned.get(entry.owner) if entry.owner is not None else None
        if siblings is not None and entry.owner is not None:
            siblings.discard(key)
            if not siblings:
                del self._owned[entry.owner]
