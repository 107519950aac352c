"""The end of the server, for work that waits for somebody else."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class StoppedError(Exception):
    """The server stops, and the work was not done in time."""


class Stopping:
    """Lets work go on as long as the server runs, and `grace_seconds` longer."""

    def __init__(self, grace_seconds: float = 3.0) -> None:
        self._grace_seconds = grace_seconds
        self._closed = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        """Whether the server stops."""
        return self._closed.is_set()

    def close(self) -> None:
        """The server stops now."""
        self._closed.set()

    async def finish(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work. Raises StoppedError when the server has stopped before it."""
        task = asyncio.ensure_future(work)
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait([task, closing], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait([task], timeout=self._grace_seconds)
            if not task.done():
                raise StoppedError
            return task.result()
        finally:
            closing.cancel()
            task.cancel()
