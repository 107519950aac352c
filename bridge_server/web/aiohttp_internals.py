"""The private names of aiohttp that are used, all in one place. An aiohttp without them is used all the same.

A server that stops, or has too many connections, must know of each whether a request has come, whether its
body is still on its way, and whether the next is waited for; aiohttp has no public way to ask. Without these
attributes silent connections end only with aiohttp's keep-alive, idle ones make no room, and a body that
arrives while the server stops is lost.

Where an operator may look, a few facts of every request are kept. aiohttp's public properties are computed
and kept with the request, which costs more than all that is done with them: `head_of`, `client_of` and
`path_names_of` read private attributes. Without these each request is kept by itself.

aiohttp puts every frame of a WebSocket into a queue and wakes the task that reads it, which costs more than
the reading. With a queue of this module, a text frame is processed as soon as it has come, in a callback of
the event loop, unless another one waits. Without that, the task processes every frame.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from inspect import signature
from operator import attrgetter
from typing import Any, Literal

from aiohttp import WSMsgType, web

try:
    from aiohttp._websocket.reader import WebSocketDataQueue
    from aiohttp.http_websocket import WebSocketReader, WSMessageTextBytes
except ImportError:  # a version of aiohttp that was not tested
    WebSocketDataQueue = WebSocketReader = WSMessageTextBytes = object  # type: ignore[assignment,misc]

LATER = WSMsgType.CONTINUATION
"""The type of a message in the queue whose data is a future: the rest of the processing of a text frame.

aiohttp joins continuation frames, and puts none into a queue.
"""

_IS_TEXT = WSMsgType.TEXT  # looked up once: access to an enumeration's member is slow
_PAUSED_ABOVE_BYTES = 256 * 1024
_OF_CONNECTIONS = ("_current_request", "_messages", "_request_count", "_waiter")
_OF_REQUESTS = frozenset({"_match_info", "_message", "_protocol"})
_OF_SOCKETS = ("_max_msg_size", "_reader", "_writer", "_ws_protocol")
_AT_START = ["self", "request", "protocol", "writer"]
_HELLO = b"hello"
_FRAME = bytes([0x81, 0x80 | len(_HELLO), 0, 0, 0, 0]) + _HELLO  # as a client masks it (RFC 6455, 5.2)


def has_known_attributes(kind: type) -> bool:
    """Whether connections of this kind have the attributes that are read here."""
    return all(hasattr(kind, name) for name in _OF_CONNECTIONS)


_HAS_KNOWN_ATTRIBUTES = has_known_attributes(web.RequestHandler)


def has_known_requests() -> bool:
    """Whether requests have the attributes that `head_of`, `client_of` and `path_names_of` read."""
    return getattr(web.Request, "ATTRS", frozenset()) >= _OF_REQUESTS


# Functions of C, because a function of Python would cost as much as the attribute that it reads.
head_of: Callable[[web.Request], Any] = attrgetter("_message")
"""The method, path and header fields of a request, as they were sent."""
client_of: Callable[[web.Request], str] = attrgetter("_protocol.client")
"""The address of the client of a guarded connection; AttributeError for any other connection."""
path_names_of: Callable[[web.Request], Mapping[str, str]] = attrgetter("_match_info")
"""The names of the path of a request that has a route."""


class ObservedHandler(web.RequestHandler):
    """A connection of aiohttp that reports its state."""

    __slots__ = ()

    @property
    def has_asked(self) -> bool:
        """Whether the head of a request has come."""
        return not _HAS_KNOWN_ATTRIBUTES or self._request_count > 0

    @property
    def is_idle(self) -> bool:
        """Whether everything that it asked for was answered."""
        return (
            _HAS_KNOWN_ATTRIBUTES
            and self._request_count > 0
            and self._waiter is not None
            and not self._messages
        )

    @property
    def is_receiving(self) -> bool:
        """Whether the body of a request is on its way."""
        if not _HAS_KNOWN_ATTRIBUTES:
            return False
        request = self._current_request
        if request is not None and not request.content.is_eof():
            return True
        return any(not payload.is_eof() for _, payload in self._messages)

    def fail_receiving(self, error: Exception) -> None:
        """Raise the error where the body of the request that is under way is waited for."""
        if _HAS_KNOWN_ATTRIBUTES and self._current_request is not None:
            self._current_request.content.set_exception(error)


class FrameQueue(WebSocketDataQueue):
    """A queue whose text frames are processed by `hear` while the task that reads the queue `is_idle`."""

    __slots__ = ("_hear", "_later", "is_idle")

    def __init__(self, protocol: Any, loop: Any, hear: Callable[[bytes], Awaitable[None] | None]) -> None:
        super().__init__(protocol, _PAUSED_ABOVE_BYTES, loop=loop)
        self._hear = hear
        self._later: asyncio.Future[None] | None = None
        self.is_idle = False
        """Whether the task waits for the next message, and has processed all earlier ones."""

    def feed_data(self, data: Any, size: int) -> None:
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


@lru_cache(maxsize=1)
def has_known_sockets() -> bool:
    """Whether the frames that aiohttp reads come to a FrameQueue: one is read to try it."""
    heard: list[bytes] = []
    try:
        asked = list(signature(web.WebSocketResponse._post_start).parameters)  # noqa: SLF001
        socket = web.WebSocketResponse()
        queue = FrameQueue(None, None, heard.append)
        reader = WebSocketReader(queue, 2 * len(_HELLO), compress=False, decode_text=False)
        queue.is_idle = True
        reader.feed_data(_FRAME)
        queue.is_idle = False
        reader.feed_data(_FRAME)
        waiting = len(queue._buffer)  # noqa: SLF001
    except Exception:  # a version of aiohttp that was not tested
        return False
    is_known = asked == _AT_START and all(hasattr(socket, name) for name in _OF_SOCKETS)
    return is_known and heard == [_HELLO] and waiting == 1


class PromptSocket(web.WebSocketResponse[Literal[False]]):
    """A WebSocket of aiohttp with a FrameQueue. `frames` is None if aiohttp is not as known."""

    def __init__(self, hear: Callable[[bytes], Awaitable[None] | None], **options: Any) -> None:
        super().__init__(compress=False, decode_text=False, **options)
        self._hear = hear
        self.frames: FrameQueue | None = None

    def _post_start(self, *arguments: Any, **named: Any) -> None:
        if not has_known_sockets():
            super()._post_start(*arguments, **named)
            return
        request, self._ws_protocol, self._writer = arguments
        self._reader = self.frames = FrameQueue(request.protocol, asyncio.get_running_loop(), self._hear)
        self._parser = WebSocketReader(self._reader, self._max_msg_size, compress=False, decode_text=False)
        request.protocol.set_parser(self._parser)
        request.protocol.keep_alive(False)


def _failed(error: Exception) -> asyncio.Future[None]:
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(error)
    failed.exception()  # a task that was cancelled never asks
    return failed
