"""A first-in, first-out queue for a limited number of streams."""

import asyncio
from collections import deque
from collections.abc import Callable


class StreamQueue:
    """Requests that wait for a stream, in order. `free` returns how many streams may be opened now."""

    def __init__(self, free: Callable[[], int]) -> None:
        self._free = free
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Wait to be woken. The caller then checks again whether a stream is free."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            self.wake()  # this request may have been woken already: wake the next one
            raise

    def wake(self) -> None:
        """Wake as many requests as there are free streams."""
        self._wake(self._free())

    def wake_all(self) -> None:
        """Wake every request, because the connection accepts no more."""
        self._wake(len(self._waiting))

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1
