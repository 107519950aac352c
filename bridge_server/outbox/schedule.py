"""Which destination has to be looked at when: one number and one heap entry for each."""

import heapq


class Schedule:
    """Remembers the earliest time for each destination, in milliseconds since the Unix epoch."""

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def put(self, destination: str, due_ms: int) -> None:
        """Look at the destination at this time; an earlier time that is known already stays."""
        known = self._due_ms.get(destination)
        if known is None or due_ms < known:
            self._due_ms[destination] = due_ms
            heapq.heappush(self._heap, (due_ms, destination))

    def take_due(self, now_ms: int, limit: int) -> list[str]:
        """Remove and return the destinations whose time has come, earliest first."""
        due: list[str] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < limit:
            due_ms, destination = heapq.heappop(self._heap)
            if self._due_ms.get(destination) == due_ms:  # else an entry that an earlier one replaced
                del self._due_ms[destination]
                due.append(destination)
        return due
