"""Deletes expired rows, a few at a time, so that no other write waits long. A clock that jumped may be wrong:
nothing is deleted for an hour after that, so that an operator can set it right.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter
from typing import TypeAlias

import structlog

from bridge_server.kernel.clock import Clock, ClockJumps
from bridge_server.kernel.errors import UnavailableError

Sweep: TypeAlias = Callable[[int], Awaitable[int]]
"""Deletes one slice of rows that have expired by a time in milliseconds; returns how many rows it deleted
or looked at, and 0 when that is enough for now."""

Hold: TypeAlias = Callable[[], AbstractAsyncContextManager[bool]]
"""Gives whether this process may sweep now, and no other does until the context is left."""

# After each slice the sweep pauses for a multiple of the time that the slice took, and at least so long. A
# sweep that goes on for a minute is behind: its pauses shrink down to a tenth.
_PAUSE_PER_SECOND = 2.0
_LEAST_PAUSE_SECONDS = 0.03
_MOST_HASTE = 0.9
_MOST_HASTE_AFTER_SECONDS = 60.0

_PAUSE_AFTER_JUMP_US = 3_600_000_000

log = structlog.get_logger()


@asynccontextmanager
async def always() -> AsyncIterator[bool]:
    """The hold of a process that has the database alone."""
    yield True


class Sweeper:
    """Runs every sweep each `interval_seconds`, slice after slice until nothing is left. Of several processes
    the one sweeps that has the `hold`; the others leave it at that until the next time. Without `minds_jumps`
    it goes by the clock even after a jump, for a clock that tests move.
    """

    def __init__(
        self,
        sweeps: Sequence[Sweep],
        clock: Clock,
        interval_seconds: float,
        *,
        minds_jumps: bool = True,
        hold: Hold = always,
    ) -> None:
        self._sweeps = sweeps
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._minds_jumps = minds_jumps
        self._hold = hold
        self._jumps = ClockJumps(clock)
        self._rests_until_us = 0
        self._turn = asyncio.Lock()

    async def run_forever(self) -> None:
        """Sweep until cancelled; a database that cannot serve is tried again next time."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            if self._minds_jumps and self._rests_after_jump():
                continue
            try:
                async with self._hold() as is_held:
                    if is_held:
                        await self.sweep()
            except UnavailableError as error:
                log.warning("sweep_postponed", reason=error.detail)
            except Exception:  # a failure of one sweep must not end sweeping
                log.exception("sweep_failed")

    def _rests_after_jump(self) -> bool:
        jump_us = self._jumps.since_last_check_us()
        if jump_us:
            self._rests_until_us = self._clock.elapsed_us() + _PAUSE_AFTER_JUMP_US
            log.warning(
                "clock_jumped", seconds=round(jump_us / 1_000_000),
                advice="nothing that expired is deleted for an hour: check the machine's clock",
            )  # fmt: skip
        return self._clock.elapsed_us() < self._rests_until_us

    async def none_under_way(self) -> None:
        """Return once a sweep that began earlier has ended: it deletes by the time at which it began."""
        async with self._turn:
            return

    async def sweep(self, *, pauses: bool = True) -> int:
        """Delete what had expired when it began; returns the sum of rows. Pauses keep others from waiting."""
        async with self._turn:
            swept, now_ms, began = 0, self._clock.now_ms(), perf_counter()
            for sweep in self._sweeps:
                started = perf_counter()
                while deleted := await sweep(now_ms):
                    swept += deleted
                    if pauses:
                        await asyncio.sleep(_pause(perf_counter() - started, perf_counter() - began))
                    started = perf_counter()
            return swept


def _pause(slice_seconds: float, sweep_seconds: float) -> float:
    haste = min(1.0, sweep_seconds / _MOST_HASTE_AFTER_SECONDS) * _MOST_HASTE
    return max(_LEAST_PAUSE_SECONDS, slice_seconds * _PAUSE_PER_SECOND) * (1 - haste)
