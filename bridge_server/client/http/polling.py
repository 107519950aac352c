"""Polling until there is a result."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")


async def poll(read: Callable[[], Awaitable[Found | None]], pause_seconds: float) -> Found:
    """Call `read` until it returns a result, at most once in `pause_seconds`.

    A bridge with long polling holds each read for longer than `pause_seconds`, so the next one follows at
    once. A bridge without it, or a bridge that is about to stop, answers sooner, whatever its header
    Preference-Applied says.
    """
    now = asyncio.get_running_loop().time
    while True:
        asked_at = now()
        found = await read()
        if found is not None:
            return found
        await asyncio.sleep(max(0.0, asked_at + pause_seconds - now()))
