"""The event loop's time, which a test moves: timeouts end at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

_PAUSE_SECONDS = 0.01

PassTime = Callable[[float], Awaitable[None]]
"""Moves the event loop's time by so many seconds, and has everything happen that is due."""


def moving(patch: pytest.MonkeyPatch) -> PassTime:
    """Until the patch is undone, the loop's time can be moved. Call it inside the test's loop."""
    loop = asyncio.get_running_loop()
    time, passed = loop.time, 0.0
    patch.setattr(loop, "time", lambda: time() + passed)

    async def pass_time(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        for _ in range(3):
            await asyncio.sleep(0)

    return pass_time


async def passed_until(end: "asyncio.Future[Any]", pass_time: PassTime) -> None:
    """Move time a second at a time until this has ended, with pauses in which the database can answer."""
    while not end.done():
        await pass_time(1)
        await asyncio.sleep(_PAUSE_SECONDS)
    await end
