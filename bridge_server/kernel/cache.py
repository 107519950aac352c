"""A bounded cache of values that were read; a touched key is forgotten at once. Reads of one key that overlap
become one read, and every caller gets the same bytes: a large value is in memory once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Touched
from bridge_server.kernel.values import dataclass

_ENTRY_OVERHEAD_BYTES = 400

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Cached:
    """Bytes that are valid until the key is touched, or until `expires_at_ms`; None: there, but empty."""

    value: bytes | None
    expires_at_ms: int
    owner: Key | None = None
    """Another key: once it is touched, the bytes are not valid any more."""

    @property
    def size_bytes(self) -> int:
        overhead = _ENTRY_OVERHEAD_BYTES if self.owner is None else 2 * _ENTRY_OVERHEAD_BYTES
        return overhead + len(self.value or b"")


class ReadCache:
    """Keeps the newest reads, up to `capacity_bytes`, 0 for none; owners are keys of the `owner_kinds`."""

    def __init__(self, capacity_bytes: int, owner_kinds: Collection[str] = ()) -> None:
        self._capacity_bytes = capacity_bytes
        self._owner_kinds = frozenset(owner_kinds)
        self._size_bytes = 0
        self._entries: OrderedDict[Key, Cached] = OrderedDict()
        self._loads: dict[Key, asyncio.Future[Cached | Exception | None]] = {}
        """The outcomes of reads that are under way; None: the reader was cancelled."""
        self._owned: dict[Key, set[Key]] = {}

    def subscribe_to(self, events: Events) -> None:
        """Forget every key that a commit touches, in any process."""
        events.subscribe(Touched, self._on_touched, everywhere=True)
        events.on_gap(self.clear)

    def get(self, key: Key, now_ms: int) -> Cached | None:
        """Return the value of the key, None when none is cached that is still valid."""
        entry = self._entries.get(key)
        if entry is None or entry.expires_at_ms <= now_ms:
            return None
        self._entries.move_to_end(key)
        return entry

    async def load(
        self,
        key: Key,
        read: Callable[[], Awaitable[Value]],
        shape: Callable[[Value], Cached],
        now_ms: int,
        *,
        keeps_empty: bool = True,
    ) -> Cached:
        """Read as of `now_ms`, or wait for a read under way that began after the last touch; cache the shaped
        result unless the key was touched meanwhile. The owner of a value is known only after the read: the
        touch of any owner counts as a touch of every key that is being read. Without `keeps_empty` a result
        without value is not cached.
        """
        if not self._capacity_bytes:
            return shape(await read())
        while (under_way := self._loads.get(key)) is not None:
            shared = await asyncio.shield(under_way)
            if isinstance(shared, Exception):
                raise shared
            if shared is not None:
                # That read may have begun a moment before the expiry.
                return shared if shared.expires_at_ms > now_ms else shape(await read())
        load = self._loads[key] = asyncio.get_running_loop().create_future()
        outcome: Cached | Exception | None = None
        try:
            outcome = entry = shape(await read())
            if self._loads.get(key) is load and (keeps_empty or entry.value is not None):
                self.remember(key, entry)
            return entry
        except Exception as error:
            outcome = error
            raise
        finally:
            if self._loads.get(key) is load:
                del self._loads[key]
            load.set_result(outcome)

    def remember(self, key: Key, entry: Cached) -> None:
        """Keep a value that is not larger than the cache, and whose key was not touched while it was read."""
        if key in self._entries:
            self._drop(key)
        if entry.size_bytes > self._capacity_bytes:
            return
        self._entries[key] = entry
        self._size_bytes += entry.size_bytes
        if entry.owner is not None:
            self._owned.setdefault(entry.owner, set()).add(key)
        while self._size_bytes > self._capacity_bytes:
            self._drop(next(iter(self._entries)))

    def forget(self, key: Key) -> None:
        """Drop the value of the key. A read of it that is under way is not cached."""
        self._loads.pop(key, None)
        if key in self._entries:
            self._drop(key)
        if key[0] in self._owner_kinds:
            self._loads.clear()
            for owned in self._owned.pop(key, ()):
                self._drop(owned)

    def clear(self) -> None:
        """Drop everything, and distrust all that is being read."""
        self._loads.clear()
        self._entries.clear()
        self._owned.clear()
        self._size_bytes = 0

    def _on_touched(self, event: Touched) -> None:
        key = event.key
        if key in self._entries or key in self._loads or key[0] in self._owner_kinds:
            self.forget(key)

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key)
        self._size_bytes -= entry.size_bytes
        siblings = self._owned.get(entry.owner) if entry.owner is not None else None
        if siblings is not None and entry.owner is not None:
            siblings.discard(key)
            if not siblings:
                del self._owned[entry.owner]
