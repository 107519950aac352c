"""Log lines that would come by the thousand, summed: one a minute for each event, with the addresses."""

import asyncio
from collections import Counter

import structlog

_MINUTE_SECONDS = 60.0
_MOST_ADDRESSES = 5
_MOST_COUNTED = 1_000
_OTHERS = "others"

log = structlog.get_logger()


class Tally:
    """Counts what happens to clients. The first of a kind is told at once, the others every minute."""

    def __init__(self, event: str, advice: str, tell_every_seconds: float = _MINUTE_SECONDS) -> None:
        self._event = event
        self._advice = advice
        self._tell_every_seconds = tell_every_seconds
        self._counts: Counter[str] = Counter()
        self._next_line: asyncio.TimerHandle | None = None

    def count(self, address: str) -> None:
        """It has happened to a client at this address."""
        is_known = address in self._counts or len(self._counts) < _MOST_COUNTED
        self._counts[address if is_known else _OTHERS] += 1
        if self._next_line is None:
            self._tell()

    def _tell(self) -> None:
        """Stay silent, and forget the time of the last line, after a minute without news."""
        self._next_line = None
        if not self._counts:
            return
        log.warning(
            self._event,
            connections=self._counts.total(),
            addresses=dict(self._counts.most_common(_MOST_ADDRESSES)),
            advice=self._advice,
        )
        self._counts.clear()
        loop = asyncio.get_running_loop()
        self._next_line = loop.call_later(self._tell_every_seconds, self._tell)
