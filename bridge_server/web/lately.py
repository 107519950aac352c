"""Counts of things that are made: since the start, and in the last minute."""

from collections import Counter

from bridge_server.kernel.clock import Clock

_SECONDS = 60
_MICROSECONDS = 1_000_000


class Lately:
    """Counts by name, with a count for each second of the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: dict[int, Counter[str]] = {}
        self.total: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        """Count one thing that was made, or several."""
        second = self._second()
        counts = self._seconds.get(second)
        if counts is None:
            self._seconds = {each: kept for each, kept in self._seconds.items() if each > second - _SECONDS}
            counts = self._seconds[second] = Counter()
        counts[name] += amount
        self.total[name] += amount

    def clear(self) -> None:
        """Forget everything."""
        self._seconds.clear()
        self.total.clear()

    def in_last_minute(self, name: str) -> int:
        """The number of things that were made in the last 60 seconds."""
        earliest = self._second() - _SECONDS
        return sum(counts[name] for second, counts in self._seconds.items() if second > earliest)

    def _second(self) -> int:
        return self._clock.elapsed_us() // _MICROSECONDS
