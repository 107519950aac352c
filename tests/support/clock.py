"""A clock that stands still until a test moves it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class ManualClock:
    """Implements the kernel's Clock; starts at a fixed moment. Loops look at it often, as tests move it."""

    tick_seconds = 0.02

    def __init__(self, start_ms: int = 1_800_000_000_000) -> None:
        self._start_us = self._now_us = start_ms * 1_000
        self._elapsed_us = 0

    def now_us(self) -> int:
        return self._now_us

    def now_ms(self) -> int:
        return self._now_us // 1_000

    def elapsed_us(self) -> int:
        return self._elapsed_us

    def advance(self, seconds: float) -> None:
        """Let time pass; a negative number sets the clock on the wall back, and no time passes."""
        self._elapsed_us += max(0, round(seconds * 1_000_000))
        self.set_by(seconds)

    def restart(self) -> None:
        """Set the clock on the wall to the moment at which it started; no time passes."""
        self._now_us = self._start_us

    def set_by(self, seconds: float) -> None:
        """Set the clock on the wall forward or back, as an operator does: no time passes."""
        self._now_us += round(seconds * 1_000_000)


# The event loop's time, which a test moves: timeouts end at once.

PassTime = Callable[[float], Awaitable[None]]
"""Moves the event loop's time by so many seconds, and has everything happen that is due."""


def moving() -> PassTime:
    """Moves the time of the running loop for good: to set it back would hold up every timer set meanwhile."""
    loop = asyncio.get_running_loop()
    time, passed = loop.time, 0.0
    loop.time = lambda: time() + passed  # type: ignore[method-assign]

    async def pass_time(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        for _ in range(3):
            await asyncio.sleep(0)

    return pass_time


async def passed_until(end: "asyncio.Future[Any]", pass_time: PassTime) -> None:
    """Move time until this has ended, with pauses in which the database can answer, however slow it is."""
    while not end.done():
        await pass_time(20.0)
        await asyncio.wait([end], timeout=5.0)
    await end
