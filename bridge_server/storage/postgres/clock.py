"""The machine's clock, corrected once a minute to the database server's: all processes agree on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database import Database, scalar

log = structlog.get_logger()

_NOW_US = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_EXCHANGES = 5
_COMPARE_SECONDS = 60.0
_US_PER_MOVED_US = 1_000
_REPORTED_US = 250_000
_PARTED_US = 100_000
_MOST_US = 2_000_000


class CorrectedClock:
    """The time of the database server at the last comparison, plus the time elapsed since: a step of the
    machine's clock changes nothing. A difference is corrected by a millisecond a second, one of more than two
    seconds at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tick_seconds = clock.tick_seconds
        self.skew_us = 0
        """The lead of the database server's clock over the machine's, as last measured."""
        self._parting_us = self._base_us = self._machine_base_us()
        """The time at elapsed time 0: the machine's at the last comparison, and the corrected one."""
        self._behind_us = 0
        self._moved_at_us: int | None = None

    def now_us(self) -> int:
        if self._behind_us:
            self._follow()
        return self._base_us + self._clock.elapsed_us()

    def now_ms(self) -> int:
        return self.now_us() // 1_000

    def elapsed_us(self) -> int:
        return self._clock.elapsed_us()

    def correct(self, theirs_us: int, uncertain_us: int = 0) -> int:
        """Follow the database server's clock, which showed `theirs_us` when the elapsed time was 0; returns
        its lead. The machine's clock, which may be set meanwhile, has no part in the measurement. The first
        difference counts at once, as does a step beyond the uncertainty of the measurement.
        """
        is_first = self._moved_at_us is None
        if self._moved_at_us is None:
            self._moved_at_us = self._clock.elapsed_us()
        self._follow()
        self._parting_us = self._machine_base_us()
        self.skew_us = theirs_us - self._parting_us
        difference_us = theirs_us - self._base_us
        if is_first or abs(difference_us) > _MOST_US + uncertain_us:
            self._base_us += difference_us
            self._behind_us = 0
        else:
            self._behind_us = difference_us
        return difference_us

    @property
    def has_parted(self) -> bool:
        """Whether the machine's clock was set since the last comparison."""
        return abs(self._machine_base_us() - self._parting_us) > _PARTED_US

    def _machine_base_us(self) -> int:
        return self._clock.now_us() - self._clock.elapsed_us()

    @property
    def missing(self) -> Sequence[str]:
        """The skew, if it is too large to go on."""
        return self.troubles if abs(self.skew_us) > _MOST_US else ()

    @property
    def troubles(self) -> Sequence[str]:
        """The skew, if it is worth an operator's attention."""
        if abs(self.skew_us) <= _REPORTED_US:
            return ()
        side = "behind" if self.skew_us > 0 else "ahead of"
        return [
            f"the machine's clock is {abs(self.skew_us) / 1_000_000:.1f} s {side} the database server's: "
            "set both by NTP"
        ]

    def _follow(self) -> None:
        assert self._moved_at_us is not None
        most_us = (self._clock.elapsed_us() - self._moved_at_us) // _US_PER_MOVED_US
        moved_us = max(-most_us, min(most_us, self._behind_us))
        self._base_us += moved_us
        self._behind_us -= moved_us
        self._moved_at_us += most_us * _US_PER_MOVED_US


@asynccontextmanager
async def kept_right(clock: CorrectedClock, database: Database) -> AsyncIterator[None]:
    """Keep the clock by the database server's, from now on. Raises UnavailableError."""
    await compare(clock, database)
    async with running(_compare_forever(clock, database)):
        yield


async def compare(clock: CorrectedClock, database: Database) -> int:
    """Correct the clock by the quickest of several exchanges. Raises UnavailableError."""

    async def theirs_us() -> int:
        return scalar(int, await database.read(_NOW_US))

    lasted_us, base_us = min([await _measured(clock, theirs_us) for _ in range(_EXCHANGES)])
    difference_us = clock.correct(base_us, lasted_us // 2)
    if abs(difference_us) > _MOST_US:
        seconds = round(difference_us / 1_000_000, 1)
        log.warning("clock_corrected", seconds=seconds, advice="keep the database server's clock by NTP")
    return difference_us


async def is_right(clock: CorrectedClock, database: Database) -> bool:
    """Whether the clock and the database server's agreed when they were compared now."""
    return abs(await compare(clock, database)) <= _MOST_US


async def _measured(clock: CorrectedClock, theirs_us: Callable[[], Awaitable[int]]) -> tuple[int, int]:
    """The duration of an exchange, and the server's time at elapsed time 0, exact to half of the duration."""
    began_us = clock.elapsed_us()
    read_us = await theirs_us()
    ended_us = clock.elapsed_us()
    return ended_us - began_us, read_us - (began_us + ended_us) // 2


async def _compare_forever(clock: CorrectedClock, database: Database) -> None:
    """Compare each minute, and when the machine's clock was set, which the database server may share."""
    seconds = 0.0
    while True:
        await asyncio.sleep(clock.tick_seconds)
        seconds += clock.tick_seconds
        if seconds >= _COMPARE_SECONDS or clock.has_parted:
            seconds = 0.0
            with suppress(UnavailableError):  # the next time tries again
                await compare(clock, database)
