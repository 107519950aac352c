"""Work beside a block of code, the stop of the server, and a lock for each key: tasks of one event loop."""

import asyncio
import math
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the coroutine while inside; cancel it and wait for its end on leaving."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks, and wait for their ends; what they raise is dropped."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def settle(done: asyncio.Future[Any], value: object, error: BaseException | None = None) -> None:
    """Give a waiting task the value, or the error, unless it was given one or was cancelled."""
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
        done.exception()  # a task that was cancelled meanwhile never asks


class StoppedError(Exception):
    """The server stops, and the work was not done in time."""


class Stopping:
    """The stop of the server; work that waits for another server goes on `grace_seconds` longer in all."""

    def __init__(self, grace_seconds: float = 3.0) -> None:
        self._grace_seconds = grace_seconds
        self.is_announced = False
        self._closed = asyncio.Event()
        self._over_at = math.inf
        self._wanted = asyncio.Event()
        self.reason: str | None = None
        """The reason why the server ends itself; None unless it does."""

    def want(self, reason: str) -> None:
        """Have the server end itself: it cannot do its work any more."""
        if self.reason is None:
            self.reason = reason
            self._wanted.set()

    async def wanted(self) -> None:
        """Return once the server is to end itself."""
        await self._wanted.wait()

    def announce(self) -> None:
        """Have `/readyz` answer that the server stops soon: a load balancer then chooses others."""
        self.is_announced = True

    @property
    def has_begun(self) -> bool:
        """Whether the server stops."""
        return self._closed.is_set()

    def close(self) -> None:
        """Begin the stop. A second call changes nothing."""
        if not self.has_begun:
            self._over_at = asyncio.get_running_loop().time() + self._grace_seconds
            self._closed.set()

    async def finish(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of the work. Raises StoppedError when the grace ends before the work."""
        if self._seconds_left() <= 0:
            work.close()
            raise StoppedError
        task = asyncio.ensure_future(work)
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait([task, closing], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait([task], timeout=self._seconds_left())
            if not task.done():
                raise StoppedError
            return task.result()
        finally:
            closing.cancel()
            task.cancel()

    def _seconds_left(self) -> float:
        return max(0.0, self._over_at - asyncio.get_running_loop().time())


class KeyedLock:
    """A lock for each key: work under one key runs one after the other, in the order in which it asked."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._wanted: dict[str, int] = {}

    @asynccontextmanager
    async def taken(self, key: str) -> AsyncIterator[None]:
        """Hold the key's lock inside."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._wanted[key] = self._wanted.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key], self._locks[key]
