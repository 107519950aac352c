"""Waiting for what happens by itself, without a guess at how long it takes. A condition must stay true until
the test does something more: one that can pass by between two looks is waited for by the event that brings
it.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_CHECK_EVERY_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0


async def eventually(holds: Callable[[], Awaitable[bool] | bool], within_seconds: float = 60.0) -> None:
    """Return as soon as the condition holds; raises TimeoutError when it does not in time."""
    async with asyncio.timeout(within_seconds):
        while True:
            held = holds()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(_CHECK_EVERY_SECONDS)


def until(holds: Callable[[], bool], told: Callable[[], str] = lambda: "") -> None:
    """`eventually` for a test without an event loop: `told` says in the error what was there instead."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(told())
        time.sleep(_CHECK_EVERY_SECONDS)


async def turns(count: int = 20) -> None:
    """Let everything that is ready run: what needs no other process, thread or socket has happened then."""
    for _ in range(count):
        await asyncio.sleep(0)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep everybody else from writing to the SQLite file inside the block."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
