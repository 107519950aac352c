"""Deletes what expired, a little at a time, so that nobody waits long behind it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TypeAlias

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError

Sweep: TypeAlias = Callable[[int], Awaitable[int]]
"""Deletes one slice of what has expired at the given time in milliseconds; returns how many rows."""

# After each slice the others have the database to themselves: for a multiple of the time that it took,
# and at least so long. A sweep that goes on for a minute is behind: its pauses shrink down to a tenth.
_PAUSE_PER_SECOND = 2.0
_LEAST_PAUSE_SECONDS = 0.03
_MOST_HASTE = 0.9
_MOST_HASTE_AFTER_SECONDS = 60.0

log = structlog.get_logger()


class Sweeper:
    """Runs every sweep each `interval_seconds`, slice after slice until nothing is left."""

    def __init__(self, sweeps: Sequence[Sweep], clock: Clock, interval_seconds: float) -> None:
        self._sweeps = sweeps
        self._clock = clock
        self._interval_seconds = interval_seconds

    async def run_forever(self) -> None:
        """Sweep until cancelled; a database that cannot serve is tried again next time."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.sweep()
            except UnavailableError as error:
                log.warning("sweep_postponed", reason=error.detail)
            except Exception:  # what failed may work next time; what expired must not stay for ever
                log.exception("sweep_failed")

    async def sweep(self) -> int:
        """Delete everything that had expired when it began; returns how many rows."""
        swept = 0
        began = perf_counter()
        now_ms = self._clock.now_ms()
        for sweep in self._sweeps:
            started = perf_counter()
            while deleted := await sweep(now_ms):
                swept += deleted
                await asyncio.sleep(_pause(perf_counter() - started, perf_counter() - began))
                started = perf_counter()
        return swept


def _pause(slice_seconds: float, sweep_seconds: float) -> float:
    haste = min(1.0, sweep_seconds / _MOST_HASTE_AFTER_SECONDS) * _MOST_HASTE
    return max(_LEAST_PAUSE_SECONDS, slice_seconds * _PAUSE_PER_SECOND) * (1 - haste)
