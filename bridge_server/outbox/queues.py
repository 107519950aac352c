"""The state of the outbox's queues: when each is due, who may send it, which are troubled or held back."""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Protocol, TypeAlias

from bridge_server.outbox.models import Claimant, Queue

_QUEUES_REMEMBERED = 10_000
_MOST_REPLACED = 64  # entries of a schedule's heap, beyond as many as there are queues


class Schedule:
    """Remembers when to read each of `most` queues, in epoch milliseconds; others are found in the store."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._due: dict[Queue, tuple[int, Claimant]] = {}
        self._heap: list[tuple[int, Queue]] = []
        self.has_turned_away = False

    def __len__(self) -> int:
        return len(self._due)

    def put(self, claimant: Claimant, due_ms: int) -> None:
        """Read the queue at this time; an earlier time that is known already stays."""
        known = self._due.get(claimant.queue)
        if known is not None and known[0] <= due_ms:
            return
        if known is None and len(self._due) >= self._most:
            self.has_turned_away = True
            return
        self._due[claimant.queue] = due_ms, claimant
        heapq.heappush(self._heap, (due_ms, claimant.queue))
        if len(self._heap) > 2 * len(self._due) + _MOST_REPLACED:
            self._heap = [(due_ms, queue) for queue, (due_ms, _) in self._due.items()]
            heapq.heapify(self._heap)

    def has_due(self, now_ms: int) -> bool:
        """Whether the time of a queue has come."""
        return bool(self._heap) and self._heap[0][0] <= now_ms

    def take_due(self, now_ms: int, limit: int) -> list[Claimant]:
        """Remove and return the queues whose time has come, earliest first."""
        due: list[Claimant] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < limit:
            due_ms, queue = heapq.heappop(self._heap)
            known = self._due.get(queue)
            if known is not None and known[0] == due_ms:  # else an earlier time has replaced the entry
                del self._due[queue]
                due.append(known[1])
        return due


InUse: TypeAlias = Callable[[], Collection[str]]
"""The destinations whose messages are under way here, or that rest."""


class Leases(Protocol):
    """The destinations to which this process may send: a delivery begins only while there is a tenure. One
    process has a destination at a time, and keeps its order, its requests at once and its pauses in memory.
    """

    def tenure(self, destination: str) -> int:
        """The number of this tenure of the destination, which dates what was read in it; 0 without one."""

    def is_elsewhere(self, destination: str) -> bool:
        """Whether another process had it when leases were last read, a moment ago."""

    def was_here(self, destination: str) -> bool:
        """Whether this process has the destination, or gave it up a moment ago: others may not know yet."""

    async def take(self, destination: str) -> bool:
        """Have the destination if no other process has it; returns whether this one has it."""

    async def refresh(self) -> None:
        """Read which destinations are elsewhere. Raises UnavailableError."""

    def ticks_to_recount(self) -> int:
        """The number of ticks between two searches for queues that no process sends."""

    def holding(self, in_use: InUse) -> AbstractAsyncContextManager[None]:
        """Keep destinations in use inside, and give up others; on leaving, all of them."""


class AllDestinations:
    """The leases of the only process: every destination, without an end."""

    def tenure(self, _: str) -> int:
        return 1

    def is_elsewhere(self, _: str) -> bool:
        return False

    def was_here(self, _: str) -> bool:
        return False

    async def take(self, _: str) -> bool:
        return True

    async def refresh(self) -> None:
        """Do nothing: there is no other process."""

    def ticks_to_recount(self) -> int:
        return 60

    def holding(self, _: InUse) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class Troubled:
    """The queues whose last attempt failed, the most recent ones: they are sent one message at a time."""

    def __init__(self) -> None:
        self._queues: OrderedDict[Queue, None] = OrderedDict()

    def __contains__(self, queue: Queue) -> bool:
        return queue in self._queues

    def note(self, queue: Queue, has_failed: bool) -> None:
        """Remember whether the last attempt failed."""
        self._queues.pop(queue, None)
        if has_failed:
            self._queues[queue] = None
            if len(self._queues) > _QUEUES_REMEMBERED:
                self._queues.popitem(last=False)


class Withheld:
    """The rows of messages that an operator changes: meanwhile no lane begins to send them."""

    def __init__(self) -> None:
        self._rows: Counter[int] = Counter()
        self.given_back = 0
        """How often a row was given back. A lane that has read rows before it grew reads them again."""

    def __contains__(self, row_id: int) -> bool:
        return row_id in self._rows

    @contextmanager
    def row(self, row_id: int) -> Iterator[None]:
        """Withhold the row inside the block. Several may do so at once."""
        self._rows[row_id] += 1
        try:
            yield
        finally:
            self.given_back += 1
            self._rows[row_id] -= 1
            if not self._rows[row_id]:
                del self._rows[row_id]
