"""A bounded memory of what was read. The store stays the truth: a touched key is forgotten at once."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bridge_server.kernel.signals import Key

_ENTRY_OVERHEAD_BYTES = 400


@dataclass(frozen=True, slots=True)
class Cached:
    """Bytes that hold until the key is touched, or until `expires_at_ms`; None means «there, but empty»."""

    value: bytes | None
    expires_at_ms: int

    @property
    def size_bytes(self) -> int:
        return _ENTRY_OVERHEAD_BYTES + len(self.value or b"")


class ReadCache:
    """Keeps the values read most recently, up to `capacity_bytes` in all."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._size_bytes = 0
        self._entries: OrderedDict[Key, Cached] = OrderedDict()
        self._loads: dict[Key, object] = {}

    def get(self, key: Key, now_ms: int) -> Cached | None:
        """What is remembered and still holds."""
        entry = self._entries.get(key)
        if entry is None or entry.expires_at_ms <= now_ms:
            return None
        self._entries.move_to_end(key)
        return entry

    async def load(self, key: Key, read: Callable[[], Awaitable[Cached]]) -> Cached:
        """Read, and remember the result unless the key was touched meanwhile: then it may be the past."""
        ticket = self._loads.setdefault(key, object())  # one for all that read before the next touch
        try:
            entry = await read()
            if self._loads.get(key) is ticket:
                self._remember(key, entry)
            return entry
        finally:
            if self._loads.get(key) is ticket:
                del self._loads[key]

    def forget(self, key: Key) -> None:
        """Drop what is remembered of the key, and distrust what is being read of it."""
        self._loads.pop(key, None)
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size_bytes -= entry.size_bytes

    def _remember(self, key: Key, entry: Cached) -> None:
        previous = self._entries.pop(key, None)
        if previous is not None:
            self._size_bytes -= previous.size_bytes
        self._entries[key] = entry
        self._size_bytes += entry.size_bytes
        while self._size_bytes > self._capacity_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._size_bytes -= oldest.size_bytes
