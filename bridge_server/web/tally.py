"""Log lines that would come by the thousand, summed: one a minute for each event, with the addresses."""

import asyncio
from collections import Counter
from collections.abc import Callable

import structlog

_MINUTE_SECONDS = 60.0
_SOON_SECONDS = 1.0
_MOST_ADDRESSES = 5
_MOST_COUNTED = 1_000
_OTHERS = "others"

log = structlog.get_logger()


class Tally:
    """Counts events by client address, and logs them: the first ones after a second, then every minute."""

    def __init__(self, event: str, advice: Callable[[], str]) -> None:
        self._event = event
        self._advice = advice
        self._counts: Counter[str] = Counter()
        self._next_line: asyncio.TimerHandle | None = None

    def count(self, address: str) -> None:
        """Count one event of a client at this address."""
        is_known = address in self._counts or len(self._counts) < _MOST_COUNTED
        self._counts[address if is_known else _OTHERS] += 1
        if self._next_line is None:
            self._next_line = asyncio.get_running_loop().call_later(_SOON_SECONDS, self._tell_again)

    def tell(self) -> None:
        """Write the line now, if there is anything to say."""
        if not self._counts:
            return
        log.warning(
            self._event,
            connections=self._counts.total(),
            addresses=dict(self._counts.most_common(_MOST_ADDRESSES)),
            advice=self._advice(),
        )
        self._counts.clear()

    def _tell_again(self) -> None:
        """Every minute; after one without news the next line comes soon again."""
        self._next_line = None
        if self._counts:
            self.tell()
            self._next_line = asyncio.get_running_loop().call_later(_MINUTE_SECONDS, self._tell_again)
