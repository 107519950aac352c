"""The stop of the server, for work that waits for another server."""

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class StoppedError(Exception):
    """The server stops, and the work was not done in time."""


class Stopping:
    """Lets work go on as long as the server runs, and all of it together `grace_seconds` longer."""

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
        """Return the result of the work. Raises StoppedError when the grace ends before the work; when it has
        ended already, the work is not begun.
        """
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
