"""The private names of aiohttp that are used, all in one place. With an aiohttp that lacks them its own ways
are taken.

`ObservedHandler`: a server that stops, or has too many connections, must know which have sent a request, wait
for the next, or are sending a body. Otherwise silent connections end only with aiohttp's keep-alive, idle
ones make no room, and a body that arrives while the server stops is lost.
`QuickMatch`, `noted_of`, `peer_key_of`: aiohttp's public properties are computed and kept with each request,
which costs more than all that the record of requests does with them.
`ReadyResponse`: a whole answer needs nothing of what aiohttp prepares for one that may be streamed.
`quick_routes`: a path with at most one id is found in a dictionary; aiohttp asks the pattern of each route.
`FrameQueue`: aiohttp wakes a task for each frame of a WebSocket, which costs more than reading it. With this
queue a text frame is processed in a callback of the event loop as soon as it has come.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from inspect import signature
from typing import Any, Literal, NamedTuple, TypeAlias

from aiohttp import StreamReader, WSMsgType, hdrs, web
from aiohttp.http import HttpVersion11
from aiohttp.web_urldispatcher import UrlMappingMatchInfo
from multidict import CIMultiDict, CIMultiDictProxy, istr

try:
    from aiohttp._websocket.reader import WebSocketDataQueue
    from aiohttp.http_websocket import WebSocketReader, WSMessageTextBytes
except ImportError:  # a version of aiohttp that was not tested
    WebSocketDataQueue = WebSocketReader = WSMessageTextBytes = object  # type: ignore[assignment,misc]

PREFER = istr("Prefer")  # looked up in a third of the time that a plain text takes

LATER = WSMsgType.CONTINUATION
"""The type of a message whose data is a future, the rest of the processing of a text frame. aiohttp joins
continuation frames, and puts none into a queue."""

_IS_TEXT = WSMsgType.TEXT  # looked up once: access to an enumeration's member is slow
_PAUSED_ABOVE_BYTES = 256 * 1024
_OF_CONNECTIONS = ("_current_request", "_messages", "_request_count", "_waiter")
_OF_REQUESTS = frozenset({"_match_info", "_message", "_payload", "_protocol", "_read_bytes"})
_OF_BODIES = (
    "_buffer", "_buffer_offset", "_cursor", "_exception", "_http_chunk_splits", "_protocol", "_size",
)  # fmt: skip
_OF_RESPONSES = {
    "_state", "_headers", "_status", "_reason", "_body", "_compressed_body", "_zlib_executor_size",
    "_zlib_executor",
}  # fmt: skip
_OF_MATCHES = ("_route", "_apps", "_current_app", "_frozen")
_UNCOMPRESSED_BYTES = 1_024
_REASONS = {each.value: each.phrase for each in HTTPStatus}
_OF_SOCKETS = ("_max_msg_size", "_reader", "_writer", "_ws_protocol")
_AT_START = ["self", "request", "protocol", "writer"]
_HELLO = b"hello"
_FRAME = bytes([0x81, 0x80 | len(_HELLO), 0, 0, 0, 0]) + _HELLO  # as a client masks it (RFC 6455, 5.2)


def has_known_attributes(kind: type) -> bool:
    """Whether connections of this kind have the attributes that are read here."""
    return all(hasattr(kind, name) for name in _OF_CONNECTIONS)


_HAS_KNOWN_ATTRIBUTES = has_known_attributes(web.RequestHandler)


def has_known_requests() -> bool:
    """Whether requests have the attributes that are read here."""
    return getattr(web.Request, "ATTRS", frozenset()) >= _OF_REQUESTS


_HAS_KNOWN_REQUESTS = has_known_requests()
_HAS_KNOWN_BODIES = all(hasattr(StreamReader, name) for name in _OF_BODIES) and hasattr(
    web.RequestHandler, "_reading_paused"
)


def noted_of(request: Any) -> tuple[str, str, str]:
    """The path as it was sent, the id in it, and the address of the client, empty behind a proxy. Raises
    AttributeError unless the path was found by `quick_routes`, on a guarded connection.
    """
    match = request._match_info
    return match.path, match.value, request._protocol.client


def peer_key_of(request: Any) -> str | None:
    """The key of the buckets of a guarded connection's peer, None if exempt. Raises AttributeError."""
    key: str | None = request._protocol.peer_key
    return key


def take_body(request: web.Request) -> bytes | None:
    """The whole body, None while some of it is on its way. Raises what aiohttp found wrong with it."""
    if not _HAS_KNOWN_REQUESTS or not request.content.is_eof():
        return None
    found: bytes | None = request._read_bytes
    if found is None:
        found = request._read_bytes = _all_of(request.content)
    return found


def _all_of(content: Any) -> bytes:
    """The bytes of a body that has arrived. Nearly always they are one piece, which is taken here: aiohttp's
    `read_nowait` also resumes the connection, which was never paused, and has its parser read nothing.
    """
    if (
        type(content) is not StreamReader
        or not _HAS_KNOWN_BODIES
        or len(content._buffer) != 1
        or content._buffer_offset
        or content._exception is not None
        or content._http_chunk_splits is not None
        or content._protocol._reading_paused
    ):
        whole: bytes = content.read_nowait()
        return whole
    piece: bytes = content._buffer.popleft()
    content._size -= len(piece)
    content._cursor += len(piece)
    return piece


def body_of(request: web.Request) -> bytes | None:
    """The body that was received before; None if it must be awaited."""
    return getattr(request, "_read_bytes", None)


def lets_be_quick(request: web.BaseRequest) -> bool:
    """Whether an answer may be written at once: HTTP/1.1, not to HEAD, and the connection stays open."""
    head = getattr(request, "_message", None)
    if head is None:
        return request.version == HttpVersion11 and request.keep_alive and request.method != hdrs.METH_HEAD
    return head.version == HttpVersion11 and not head.should_close and head.method != hdrs.METH_HEAD


@lru_cache(maxsize=1)
def has_known_responses() -> bool:
    """Whether a new response has the attributes that `ReadyResponse` fills in, and no others."""
    return vars(web.Response()).keys() == _OF_RESPONSES


class ReadyResponse(web.Response):
    """A response with ready-made headers, which become a mapping of its own when somebody asks for them."""

    ready: CIMultiDictProxy[str]  # a subclass sets the default headers
    own_headers: CIMultiDict[str] | None = None

    def __init__(
        self, *, headers: CIMultiDictProxy[str] | None = None, body: bytes | None = None, status: int = 200
    ) -> None:
        if headers is not None:
            self.ready = headers
        if not has_known_responses():
            super().__init__(headers=self.ready, body=body, status=status)
            return
        self._state = {}
        self._status = status
        self._reason = _REASONS[status]
        self._body = body
        self._zlib_executor_size = _UNCOMPRESSED_BYTES
        self._zlib_executor = None

    def add_fields(self, headers: CIMultiDict[str]) -> None:
        """Called once with the new mapping: a subclass adds what it has kept besides."""

    @property  # type: ignore[override]
    def _headers(self) -> CIMultiDict[str]:
        own = self.own_headers
        if own is None:
            own = self.own_headers = CIMultiDict(self.ready)
            self.add_fields(own)
        return own

    @_headers.setter
    def _headers(self, headers: CIMultiDict[str]) -> None:
        self.own_headers = headers


class QuickRoute(NamedTuple):
    """A route whose path has one id, `/first/{name}/rest`, with the characters that need no quoting."""

    first: str
    name: str
    rest: str
    route: web.AbstractRoute


_NONE: tuple[str, Any] = ("", None)
_ROUTE_HANDLER = "_handler"
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
_MOST_SLASHES = 64
_QUICK = re.compile(r"/([a-z0-9-]+)/([A-Za-z0-9_-]{1,128})((?:/[a-z-]+)*)(?:\?.*)?", re.ASCII)


class QuickMatch(UrlMappingMatchInfo):
    """The match of a path as aiohttp would make it, without the steps of its resolver."""

    __slots__ = ("head", "is_plain", "path", "value")

    def __init__(self, route: web.AbstractRoute, apps: list[web.Application], head: Any, value: str) -> None:
        self._route = route
        self._apps = apps
        self._current_app = apps[0]
        self._frozen = True
        self.head = head
        """The method, path and header fields, as they were sent."""
        self.path: str = head.path
        self.value = value
        """The id in the path, if it has one."""
        self.is_plain: bool | None = None
        """The answer of `is_plain`, which is asked twice; None before."""


def is_plain(request: Any) -> bool:
    """Whether the request surely has neither a query nor preferences, as most polls."""
    match = request._match_info if _HAS_KNOWN_REQUESTS else None
    if type(match) is not QuickMatch:
        return False
    if match.is_plain is None:
        match.is_plain = "?" not in match.path and PREFER not in match.head.headers
    return match.is_plain


def quick_routes(
    app: web.Application,
    routes: Iterable[QuickRoute],
    fixed: Iterable[tuple[str, web.AbstractRoute]],
    otherwise: Callable[[Any], Awaitable[web.StreamResponse]],
    unrouted: web.AbstractRoute | None,
) -> Callable[[Any], Awaitable[web.StreamResponse]]:
    """Handles requests to these routes at once, others by `otherwise`; `fixed` ones, without an id, win. A
    path of very many parts is `unrouted`: aiohttp would look for each of its beginnings.
    """
    table = {(each.route.method, each.first, each.rest): (each.name, each.route) for each in routes}
    whole = {(route.method, path): route for path, route in fixed}
    paths = {path for _, path in whole}
    words = {path.split("/")[2] for path in paths if path.count("/") > 1}
    is_known = has_known_requests() and all(hasattr(UrlMappingMatchInfo, name) for name in _OF_MATCHES)
    if not is_known or app.middlewares:
        return otherwise
    find, apps = _QUICK.fullmatch, [app]

    def handle(request: Any) -> Awaitable[web.StreamResponse]:
        head = request._message
        path, name, value, route = head.path, "", "", None
        if path in paths:
            route = whole.get((head.method, path))
        elif (found := find(path)) is not None:
            first, value, rest = found.groups()
            name, route = table.get((head.method, first, rest), _NONE) if value not in words else _NONE
        if route is None and path.count("/") > _MOST_SLASHES:
            route = unrouted
        if route is None or hdrs.EXPECT in head.headers:
            return otherwise(request)
        request._match_info = match = QuickMatch(route, apps, head, value)
        if name:
            match[name] = value
        return route.handler(request)

    return handle


def made_when_asked(
    add: Callable[[_Handler], web.AbstractRoute], make: Callable[[], _Handler]
) -> web.AbstractRoute:
    """The route that `add` adds, whose handler `make` makes at its first request: few are ever used."""
    made: _Handler | None = None

    async def first(request: web.Request) -> web.StreamResponse:
        nonlocal made
        if made is None:
            made = make()
            if getattr(route, _ROUTE_HANDLER, None) is first:
                setattr(route, _ROUTE_HANDLER, made)
        return await made(request)

    route = add(first)
    return route


class ObservedHandler(web.RequestHandler):
    """A connection of aiohttp that reports its state."""

    __slots__ = ()
    peer_key: str | None
    """The key under which its address is counted; None if no limit per address applies to it."""

    @property
    def has_asked(self) -> bool:
        """Whether the head of a request has come."""
        return not _HAS_KNOWN_ATTRIBUTES or self._request_count > 0

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its next request: every earlier one was answered."""
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

    def cut(self) -> None:
        """Break it off at once, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()


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
        try:
            pending = self._hear(data.data)
        except Exception as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            failed.exception()  # a task that was cancelled never asks
            self._later = failed
        else:
            if pending is None:
                return
            self._later = asyncio.ensure_future(pending)
        super().feed_data(WSMessageTextBytes(LATER, self._later, None), size)

    def drop(self) -> None:
        """Cancel the processing that is not finished."""
        if self._later is not None:
            self._later.cancel()


@lru_cache(maxsize=1)
def has_known_sockets() -> bool:
    """Whether the frames that aiohttp reads come to a FrameQueue: one is read to try it."""
    heard: list[bytes] = []
    try:
        asked = list(signature(web.WebSocketResponse._post_start).parameters)
        socket = web.WebSocketResponse()
        queue = FrameQueue(None, None, heard.append)
        reader = WebSocketReader(queue, 2 * len(_HELLO), compress=False, decode_text=False)
        queue.is_idle = True
        reader.feed_data(_FRAME)
        queue.is_idle = False
        reader.feed_data(_FRAME)
        waiting = len(queue._buffer)
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
