"""aiohttp's connection with limits of number, silence and unread bytes; and the answers to requests that
aiohttp cannot read.

With a high-water mark of 0 aiohttp's flow control says when a byte does not leave at once: connections whose
clients read cost nothing. aiohttp has no public way to answer a request that it cannot read: `RefusingRunner`
relies on a server calling `request_factory`, and a connection `handle_error`. An aiohttp of which this is not
true answers in its own words.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial, partialmethod
from inspect import signature
from typing import Any, TypeAlias, TypeVar, cast

import orjson
import structlog
from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, InvalidURLError, LineTooLong
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from bridge_server.kernel.errors import LimitError
from bridge_server.web.aiohttp_internals import ObservedHandler, QuickRoute, has_known_sockets, quick_routes
from bridge_server.web.open_connections import Backlog, Connections

_AnyKind = TypeVar("_AnyKind")

TYPE_PREFIX = "urn:bridge-server:problem:"
"""The beginning of the member `type` of a problem (RFC 9457); its code follows."""

PAGES_PATH = "/docs"
"""The path of the first page of the documentation."""

HAS_PAGES = web.AppKey("has_pages", bool)
"""Whether an application has the pages about problems. On other ports a link to them would lead nowhere."""

QUICK_ROUTES = web.AppKey[
    tuple[list[QuickRoute], list[tuple[str, web.AbstractRoute]], web.AbstractRoute | None]
]("quick_routes")
"""An application's routes of one id, and its routes without one, by their paths."""

LONGEST_TARGET_BYTES = 8_190
LONGEST_FIELD_BYTES = 8_192
"""Not equal, since only the limit tells which of the two was too long."""

LIMITS: dict[str, Any] = {"max_line_size": LONGEST_TARGET_BYTES, "max_field_size": LONGEST_FIELD_BYTES}
"""The limits as options of an aiohttp connection."""

_BAD_REQUEST, _TARGET_TOO_LONG, _FIELD_TOO_LONG = 400, 414, 431
_LONGEST_FAULT = 200
_NOWHERE = "/*"
"""A path that no route has."""

log = structlog.get_logger()

_MOST_UNSENT_BYTES = 128 * 1024
"""The bytes that the system may hold for a client that reads nothing; Linux would take megabytes."""

_UNSENT_OPTION = getattr(socket, "TCP_NOTSENT_LOWAT", None)

_OVER_LIMIT_RETRY_SECONDS = 10

Refuse: TypeAlias = Callable[[web.BaseRequest, int, str], web.StreamResponse]
"""Answers a request that could not be read, by its status and its fault."""


def help_link(code: str) -> str:
    """The Link header field of a problem (RFC 8288): the page about its code."""
    return f'<{PAGES_PATH}/errors/{code}>; rel="help"'


class RefusingRunner(web.AppRunner):
    """Runs an application. `refuse` answers requests that cannot be read, and so never reach it."""

    def __init__(self, application: web.Application, refuse: Refuse, **options: Any) -> None:
        super().__init__(application, **LIMITS, **options)
        self._refuse = refuse

    async def setup(self) -> None:
        await super().setup()
        server = super().server
        if server is not None and is_as_known():
            server.request_factory = partial(_request_for_here, server.request_factory)
            server.__class__ = _server_that(self._refuse, type(server))
            quick, fixed, unrouted = self.app.get(QUICK_ROUTES, ([], [], None))
            server.request_handler = quick_routes(self.app, quick, fixed, server.request_handler, unrouted)
        else:
            log.warning("aiohttp_unknown", advice="unreadable requests are answered in aiohttp's own words")
        if not has_known_sockets():
            log.warning("aiohttp_unknown", advice="frames of WebSockets are processed in aiohttp's own way")


@lru_cache(maxsize=1)
def is_as_known() -> bool:
    """Whether aiohttp's internals are as this module expects."""
    url, headers = URL("/"), CIMultiDictProxy(CIMultiDict[str]())
    try:
        message = RawRequestMessage("GET", "/", HttpVersion11, headers, (), False, None, False, False, url)
        message = message._replace(should_close=True)
        asked = list(signature(web.RequestHandler.handle_error).parameters)
    except (AttributeError, TypeError):
        return False
    return message.should_close and asked == ["self", "request", "status", "exc", "message"]


def refusing(kind: type[_AnyKind], refuse: Refuse) -> type[_AnyKind]:
    """This kind of connection with `refuse` for requests that it cannot read, if aiohttp is as known."""
    if not is_as_known():
        return kind
    return _with_method(kind, "handle_error", partialmethod(_handle_error, refuse))


def _server_that(refuse: Refuse, kind: type[web.Server]) -> type[web.Server]:
    """A server of this kind whose connections answer unreadable requests with `refuse`."""
    refusing_kind = lru_cache(maxsize=4)(partial(refusing, refuse=refuse))

    def connect(self: web.Server) -> web.RequestHandler:
        connection: Any = kind.__call__(self)
        connection.__class__ = refusing_kind(cast(Any, type(connection)))
        return cast(web.RequestHandler, connection)

    return _with_method(kind, "__call__", connect)


def _with_method(kind: type[_AnyKind], name: str, method: Any) -> type[_AnyKind]:
    """A subclass with another method. An object of the kind can be given this class: its layout is equal."""
    return type(f"Refusing{kind.__name__}", (kind,), {"__slots__": (), name: method})


def _handle_error(
    _: web.RequestHandler,
    refuse: Refuse,
    request: web.BaseRequest,
    status: int = 500,
    exc: BaseException | None = None,
    message: str | None = None,
) -> web.StreamResponse:
    """The answer to an error that no route has answered. Raises ConnectionError when the client has left."""
    if isinstance(exc, ConnectionError):
        raise exc
    if request.writer.output_size > 0:
        raise ConnectionError("The answer has begun already.")
    if not isinstance(exc, HttpProcessingError):
        log.error("connection_failed", exc_info=exc, reason=message)
    response = refuse(request, *_refusal_of(status, exc))
    response.force_close()
    return response


def _refusal_of(status: int, error: BaseException | None) -> tuple[int, str]:
    if isinstance(error, LineTooLong):
        if LONGEST_TARGET_BYTES in error.args:
            return _TARGET_TOO_LONG, f"The target may have at most {LONGEST_TARGET_BYTES} bytes."
        return _FIELD_TOO_LONG, f"A header field may have at most {LONGEST_FIELD_BYTES} bytes."
    if isinstance(error, BadHttpMethod):
        return _BAD_REQUEST, "This begins with no method of HTTP. (HTTPS is what a proxy before this is for.)"
    if isinstance(error, InvalidURLError):
        return _BAD_REQUEST, "The target is no path such as /hello, and no URL."
    if isinstance(error, HttpProcessingError):
        fault = error.message.partition("\n")[0].strip(" :.")[:_LONGEST_FAULT]
        return _BAD_REQUEST, f"This is no request of HTTP/1.1: {fault}."
    return status, "The server failed. Its log has the reason."


def _request_for_here(make: Callable[..., Any], message: RawRequestMessage, *others: Any) -> Any:
    """The request in a message, as if its target was a path, which it nearly always is."""
    if message.upgrade:
        # The bytes behind such a request may be of another protocol, and cannot be read after an HTTP answer.
        message = message._replace(should_close=True)
    if message.path[:1] != "/":
        message = _in_origin_form(message)
    return make(message, *others)


def _in_origin_form(message: RawRequestMessage) -> RawRequestMessage:
    """The request with path and host of its target, a URL (RFC 9112, 3.2.2); for others with no route's."""
    url = message.url
    host = url.host_subcomponent
    if message.method == hdrs.METH_CONNECT or not url.absolute or host is None:
        return message._replace(path=_NOWHERE, url=URL.build(path=_NOWHERE, encoded=True))
    headers = CIMultiDict(message.headers)
    headers[hdrs.HOST] = host if url.explicit_port is None else f"{host}:{url.explicit_port}"
    here = URL.build(path=url.raw_path or "/", query_string=url.raw_query_string, encoded=True)
    return message._replace(path=here.raw_path_qs, url=here, headers=CIMultiDictProxy(headers))


class Connection(ObservedHandler):
    """One connection of a client."""

    __slots__ = ("_connections", "_is_proxy", "_refusal", "backlog", "client", "has_room", "peer_key")

    def __init__(self, connections: Connections, refusal: bytes, server: web.Server, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._connections = connections
        self._refusal = refusal
        self._is_proxy = False
        self.peer_key: str | None = None
        self.client = ""
        """The address that its requests count to, exempt or not; empty behind a proxy, which names it."""
        self.backlog: Backlog | None = None
        self.has_room = connections.unread.has_room
        """Whether something may be pushed now; connections that read too slowly are cut off for it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writer = cast(asyncio.Transport, transport)
        address = writer.get_extra_info("peername")
        peer = str(address[0]) if isinstance(address, tuple) else ""
        self._is_proxy = self._connections.addresses.trusts(peer)
        self.peer_key = None if self._is_proxy else self._connections.addresses.key_of(peer)
        self.client = "" if self._is_proxy else self.peer_key or peer
        if not self._connections.admit(self):
            writer.write(self._refusal)
            writer.close()
            return
        self.backlog = Backlog(writer, self.peer_key)
        writer.set_write_buffer_limits(high=0)
        raw = writer.get_extra_info("socket")  # the system holds little that is not sent
        if raw is not None and _UNSENT_OPTION is not None:
            with suppress(OSError):
                raw.setsockopt(socket.IPPROTO_TCP, _UNSENT_OPTION, _MOST_UNSENT_BYTES)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.backlog is not None:
            self._connections.unread.settle(self.backlog)
            self._connections.unread.release(self.backlog)
            self._connections.forget(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.backlog is not None:
            self._connections.unread.wait(self.backlog)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.backlog is not None:
            self._connections.unread.settle(self.backlog)

    def close(self) -> None:
        """End after the request that is under way, and hear nothing more, unless its body is on its way."""
        if not self.is_receiving:
            super().close()

    def serve(self, request: web.BaseRequest) -> None:
        """Behind a proxy, count the bytes written next for the client of this request, not for the peer."""
        if self._is_proxy and self.backlog is not None and isinstance(request, web.Request):
            address = self._connections.addresses.bucket_key(request)
            self._connections.unread.move(self.backlog, address)

    def hold(self, body: bytes) -> None:
        """Note a large body that is on its way, until it is released."""
        if self.backlog is not None:
            self._connections.unread.hold(self.backlog, body)

    def release(self) -> None:
        """The body has been written, or never will be."""
        if self.backlog is not None:
            self._connections.unread.release(self.backlog)

    def wrote(self, written_bytes: int) -> None:
        """Note bytes that were pushed, without waiting for the client to keep up."""
        if self.writing_paused and self.backlog is not None:
            self._connections.unread.grow(self.backlog, written_bytes)


class GuardedRunner(RefusingRunner):
    """Runs an application, and guards its connections if aiohttp lets it."""

    def __init__(
        self,
        application: web.Application,
        refuse: Refuse,
        connections: Connections,
        shutdown_seconds: float,
        has_help: bool,
        **options: Any,
    ) -> None:
        super().__init__(
            application, refuse, handler_cancellation=True, shutdown_timeout=shutdown_seconds, **options
        )
        self._kind = refusing(Connection, refuse)
        self._connections = connections
        self._refusal = _over_limit_answer(has_help)
        self._options = LIMITS | options

    @property
    def server(self) -> web.Server | None:
        """The factory that a site calls for each connection."""
        server = super().server
        if server is None:
            return None
        make = partial(self._kind, self._connections, self._refusal, server, **self._options)
        try:
            make()
        except Exception as error:  # a version of aiohttp that was not tested
            log.warning("connections_not_guarded", error=str(error))
            return server
        return cast(web.Server, make)


def connection_of(request: web.BaseRequest) -> Connection | None:
    """The connection that will be written to at length; None when it is not guarded."""
    protocol = request.protocol
    if not isinstance(protocol, Connection):
        return None
    protocol.serve(request)
    return protocol


def _over_limit_answer(has_help: bool) -> bytes:
    """The whole answer to a connection over the limit, before any request is read."""
    body = orjson.dumps(
        {
            "type": f"{TYPE_PREFIX}{LimitError.code}",
            "title": LimitError.title,
            "status": 429,
            "detail": "Your address has too many open connections. Close some, or use them again.",
        }
    )
    link = f"Link: {help_link(LimitError.code)}\r\n" if has_help else ""
    head = (
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n"
        f"{link}Content-Length: {len(body)}\r\nRetry-After: {_OVER_LIMIT_RETRY_SECONDS}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
