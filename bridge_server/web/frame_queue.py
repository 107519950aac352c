"""The frames of a socket that its reader has not processed yet.

aiohttp puts every frame into a queue and wakes the task that reads it, which costs more than the reading.
Here a text frame is processed as soon as it has come, in a callback of the event loop, unless another one
waits. This takes a class of aiohttp that is not documented.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_websocket import WSMessage, WSMessageTextBytes

LATER = WSMsgType.CONTINUATION
"""The type of a message in the queue whose data is a future: the rest of the processing of a text frame.

aiohttp joins continuation frames, and puts none into a queue.
"""

_IS_TEXT = WSMsgType.TEXT  # looked up once: access to an enumeration's member is slow
_PAUSED_ABOVE_BYTES = 256 * 1024


class FrameQueue(WebSocketDataQueue):
    """A queue whose text frames are processed by `hear` while the task that reads the queue `is_idle`."""

    __slots__ = ("_hear", "_later", "is_idle")

    def __init__(self, protocol: BaseProtocol, hear: Callable[[bytes], Awaitable[None] | None]) -> None:
        super().__init__(protocol, _PAUSED_ABOVE_BYTES, loop=asyncio.get_running_loop())
        self._hear = hear
        self._later: asyncio.Future[None] | None = None
        self.is_idle = False
        """Whether the task waits for the next message, and has processed all earlier ones."""

    def feed_data(self, data: WSMessage | WSMessageTextBytes, size: int) -> None:
        if data.type is not _IS_TEXT or not self.is_idle or self._buffer:
            super().feed_data(data, size)
            return
        later = self._heard(data.data)
        if later is not None:
            self._later = later
            super().feed_data(WSMessageTextBytes(LATER, later, None), size)

    def drop(self) -> None:
        """Cancel the processing that is not finished."""
        if self._later is not None:
            self._later.cancel()

    def _heard(self, text: bytes) -> asyncio.Future[None] | None:
        try:
            pending = self._hear(text)
        except Exception as error:
            return _failed(error)
        return None if pending is None else asyncio.ensure_future(pending)


def _failed(error: Exception) -> asyncio.Future[None]:
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(error)
    failed.exception()  # a task that was cancelled never asks
    return failed
