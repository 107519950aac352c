"""The times at which queues have to be looked at: one number and one heap entry for each."""

import heapq

from bridge_server.outbox.models import Claimant, Queue


class Schedule:
    """Remembers the earliest time for each queue, in milliseconds since the Unix epoch, of `most` queues.

    A further queue is not remembered: it has to be found in the store again.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._due: dict[Queue, tuple[int, Claimant]] = {}
        self._heap: list[tuple[int, Queue]] = []
        self.has_turned_away = False

    def __len__(self) -> int:
        return len(self._due)

    def put(self, claimant: Claimant, due_ms: int) -> None:
        """Look at the queue at this time; an earlier time that is known already stays."""
        known = self._due.get(claimant.queue)
        if known is not None and known[0] <= due_ms:
            return
        if known is None and len(self._due) >= self._most:
            self.has_turned_away = True
            return
        self._due[claimant.queue] = due_ms, claimant
        heapq.heappush(self._heap, (due_ms, claimant.queue))

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
