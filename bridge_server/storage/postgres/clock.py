"""The machine's clock, corrected to that of the database server: processes on several machines agree on it.

The correction moves slowly, so that time never goes back by more than the machine's own clock does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from statistics import median_low

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database import Database, scalar

_NOW_US = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_EXCHANGES = 5
_COMPARE_SECONDS = 60.0
_US_PER_MOVED_US = 1_000
_TOLD_US = 250_000
_MOST_US = 2_000_000


class CorrectedClock:
    """A clock with an offset that follows the measured one by a millisecond a second at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tick_seconds = clock.tick_seconds
        self.skew_us = 0
        """The lead of the database server's clock over the machine's, as last measured."""
        self._offset_us = 0
        self._moved_at_us: int | None = None

    def now_us(self) -> int:
        if self._offset_us != self.skew_us:
            self._follow()
        return self._clock.now_us() + self._offset_us

    def now_ms(self) -> int:
        return self.now_us() // 1_000

    def elapsed_us(self) -> int:
        return self._clock.elapsed_us()

    def correct(self, skew_us: int) -> None:
        """The skew was measured. The first one counts at once."""
        if self._moved_at_us is None:
            self._offset_us = skew_us
        else:
            self._follow()
        self.skew_us = skew_us
        self._moved_at_us = self._clock.elapsed_us()

    def machine_us(self) -> int:
        """The machine's own time."""
        return self._clock.now_us()

    @property
    def missing(self) -> Sequence[str]:
        """The skew, if it is too large to go on."""
        return self.troubles if abs(self.skew_us) > _MOST_US else ()

    @property
    def troubles(self) -> Sequence[str]:
        """The skew, if it is worth an operator's look."""
        if abs(self.skew_us) <= _TOLD_US:
            return ()
        side = "behind" if self.skew_us > 0 else "ahead of"
        return [
            f"the machine's clock is {abs(self.skew_us) / 1_000_000:.1f} s {side} the database server's: "
            "set both by NTP"
        ]

    def _follow(self) -> None:
        assert self._moved_at_us is not None
        most_us = (self._clock.elapsed_us() - self._moved_at_us) // _US_PER_MOVED_US
        self._offset_us += max(-most_us, min(most_us, self.skew_us - self._offset_us))
        self._moved_at_us += most_us * _US_PER_MOVED_US


@asynccontextmanager
async def kept_right(clock: CorrectedClock, database: Database) -> AsyncIterator[None]:
    """Compare the clock with the database server's now, and once a minute. Raises UnavailableError."""
    await compare(clock, database)
    async with running(_compare_forever(clock, database)):
        yield


async def compare(clock: CorrectedClock, database: Database) -> None:
    """Correct the clock by the median of several exchanges. Raises UnavailableError."""

    async def theirs_us() -> int:
        return scalar(int, await database.read(_NOW_US))

    clock.correct(median_low([await _skew_us(clock, theirs_us) for _ in range(_EXCHANGES)]))


async def _skew_us(clock: CorrectedClock, theirs_us: Callable[[], Awaitable[int]]) -> int:
    sent_us = clock.machine_us()
    read_us = await theirs_us()
    return read_us - (sent_us + clock.machine_us()) // 2


async def _compare_forever(clock: CorrectedClock, database: Database) -> None:
    while True:
        await asyncio.sleep(_COMPARE_SECONDS)
        with suppress(UnavailableError):  # the next minute tries again
            await compare(clock, database)
