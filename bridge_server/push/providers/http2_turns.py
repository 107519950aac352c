"""Waiting in a row for one of a limited number of places."""

import asyncio
from collections import deque
from collections.abc import Callable


class StreamQueue:
    """Requests that wait for a stream, in order; `free` says how many streams may be opened now."""

    def __init__(self, free: Callable[[], int]) -> None:
        self._free = free
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Wait to be woken, and look then whether there is a place: somebody else may have been quicker."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            self.wake()  # it may have been this one's turn
            raise

    def wake(self) -> None:
        """Wake as many as there are places for."""
        self._wake(self._free())

    def wake_all(self) -> None:
        """Wake everybody: there is nothing to wait for any more."""
        self._wake(len(self._waiting))

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1
