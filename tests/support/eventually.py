"""Waiting for what happens by itself, without a guess at how long it takes."""

import asyncio
from collections.abc import Awaitable, Callable

_LOOK_EVERY_SECONDS = 0.005


async def eventually(holds: Callable[[], Awaitable[bool]], within_seconds: float = 60.0) -> None:
    """Return as soon as the condition holds; raises TimeoutError when it does not in time."""
    async with asyncio.timeout(within_seconds):
        while True:
            if await holds():
                return
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
