"""Answers to requests that aiohttp cannot read, in this server's own words.

aiohttp has no public way to this. This module relies on two undocumented facts: a server
calls `request_factory`, and a connection calls `handle_error` for a request that it cannot read. An aiohttp
of which this is not true answers in its own words.
"""

from collections.abc import Callable
from functools import lru_cache, partial, partialmethod
from inspect import signature
from typing import Any, TypeAlias, TypeVar, cast

import structlog
from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, InvalidURLError, LineTooLong
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from bridge_server.web.aiohttp_internals import has_known_sockets

Refuse: TypeAlias = Callable[[web.BaseRequest, int, str], web.StreamResponse]
"""Answers a request that could not be read, by its status and its fault."""

AnyKind = TypeVar("AnyKind")

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


class RefusingRunner(web.AppRunner):
    """Runs an application. `refuse` answers requests that never reach it."""

    def __init__(self, application: web.Application, refuse: Refuse, **options: Any) -> None:
        super().__init__(application, **LIMITS, **options)
        self._refuse = refuse

    async def setup(self) -> None:
        await super().setup()
        server = super().server
        if server is not None and is_as_known():
            server.request_factory = partial(_request_for_here, server.request_factory)
            server.__class__ = _server_that(self._refuse, type(server))
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


def refusing(kind: type[AnyKind], refuse: Refuse) -> type[AnyKind]:
    """This kind of connection with `refuse` for requests that it cannot read, if aiohttp is as known."""
    if not is_as_known():
        return kind
    return _with_method(kind, "handle_error", partialmethod(_handle_error, refuse))


def _server_that(refuse: Refuse, kind: type[web.Server]) -> type[web.Server]:
    """A server of this kind whose connections answer unreadable requests with `refuse`."""

    @lru_cache(maxsize=4)
    def refusing(kind: Any) -> Any:
        return _with_method(kind, "handle_error", partialmethod(_handle_error, refuse))

    def connect(self: web.Server) -> web.RequestHandler:
        connection: Any = kind.__call__(self)
        kind_of_connection: Any = type(connection)
        connection.__class__ = refusing(kind_of_connection)
        return cast(web.RequestHandler, connection)

    return _with_method(kind, "__call__", connect)


def _with_method(kind: type[AnyKind], name: str, method: Any) -> type[AnyKind]:
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
    response = refuse(request, *_refusal(status, exc))
    response.force_close()
    return response


def _refusal(status: int, error: BaseException | None) -> tuple[int, str]:
    """The status for an error, and its detail."""
    if isinstance(error, LineTooLong):
        return _too_long(error)
    if isinstance(error, BadHttpMethod):
        return _BAD_REQUEST, "This begins with no method of HTTP. (HTTPS is what a proxy before this is for.)"
    if isinstance(error, InvalidURLError):
        return _BAD_REQUEST, "The target is no path such as /hello, and no URL."
    if isinstance(error, HttpProcessingError):
        fault = error.message.partition("\n")[0].strip(" :.")[:_LONGEST_FAULT]
        return _BAD_REQUEST, f"This is no request of HTTP/1.1: {fault}."
    return status, "The server failed. Its log has the reason."


def _too_long(error: LineTooLong) -> tuple[int, str]:
    if LONGEST_TARGET_BYTES in error.args:
        return _TARGET_TOO_LONG, f"The target may have at most {LONGEST_TARGET_BYTES} bytes."
    return _FIELD_TOO_LONG, f"A header field may have at most {LONGEST_FIELD_BYTES} bytes."


def _request_for_here(make: Callable[..., Any], message: RawRequestMessage, *others: Any) -> Any:
    """The request in a message, as if its target was a path, which it nearly always is."""
    if message.upgrade:
        # The bytes behind such a request may be of another protocol, and cannot be read after an HTTP answer.
        message = message._replace(should_close=True)
    if not message.path.startswith("/"):
        message = _in_origin_form(message)
    return make(message, *others)


def _in_origin_form(message: RawRequestMessage) -> RawRequestMessage:
    """A request whose target is a URL, as its path and its host: the field Host counts no more (RFC 9112,
    3.2.2). A target that is neither a path nor a URL leads nowhere.
    """
    url = message.url
    host = url.host_subcomponent
    if message.method == hdrs.METH_CONNECT or not url.absolute or host is None:
        return message._replace(path=_NOWHERE, url=URL.build(path=_NOWHERE, encoded=True))
    headers = CIMultiDict(message.headers)
    headers[hdrs.HOST] = host if url.explicit_port is None else f"{host}:{url.explicit_port}"
    here = URL.build(path=url.raw_path or "/", query_string=url.raw_query_string, encoded=True)
    return message._replace(path=here.raw_path_qs, url=here, headers=CIMultiDictProxy(headers))
