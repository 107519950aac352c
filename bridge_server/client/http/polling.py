"""Asking until there is something."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")


async def poll(read: Callable[[], Awaitable[Found | None]], pause_seconds: float) -> Found:
    """Read until there is something, never more often than every `pause_seconds`.

    A bridge that knows `Prefer: wait` holds each read for longer than that, and the next follows at once. One
    that does not know it, or that is about to stop, answers sooner, whatever it says in Preference-Applied.
    """
    now = asyncio.get_running_loop().time
    while True:
        asked_at = now()
        found = await read()
        if found is not None:
            return found
        await asyncio.sleep(max(0.0, asked_at + pause_seconds - now()))
