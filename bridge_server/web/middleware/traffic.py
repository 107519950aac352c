"""The record of every request with its contents; composed only in test mode.

In production the record keeps no contents, and the outermost layer fills it (`web/observing.py`).
"""

from time import perf_counter

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.web.exchanges import CLIENT_LEFT, FIRST_FAILURE, Exchange, contents
from bridge_server.web.observing import LEFT_OUT, asks_to_wait
from bridge_server.web.routes import Route
from bridge_server.web.traffic import TrafficLog

_FORBIDDEN = 403
_MOST_CHARACTERS = 200


def traffic(row: Route, record: TrafficLog | None) -> Middleware | None:
    """Record every request of the route; None without a record, and for routes that are left out of it."""
    if record is None or not record.keeps_contents or row.who in LEFT_OUT:
        return None

    @web.middleware
    async def traffic(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = perf_counter()
        response: web.StreamResponse | None = None
        waiting = record.begin(_beginning(row, request)) if row.waits and asks_to_wait(request) else None
        try:
            response = await handler(request)
            return response
        finally:
            exchange = await _exchange(row, request, response, perf_counter() - started, waiting is not None)
            if waiting is None:
                record.note(exchange)
            else:
                record.finish(waiting, exchange)

    return traffic


def _beginning(row: Route, request: web.Request) -> Exchange:
    return Exchange(row.who, request.method, request.path_qs, row.name, 0, 0.0)


async def _exchange(
    row: Route, request: web.Request, response: web.StreamResponse | None, seconds: float, has_waited: bool
) -> Exchange:
    status = CLIENT_LEFT if response is None else response.status
    sent, body = await _sent_body(row, request, response), _body_of(response)
    return Exchange(
        who="page" if status == _FORBIDDEN and "Origin" in request.headers else row.who,
        method=request.method,
        path=request.path_qs,
        route=row.name,
        status=status,
        milliseconds=round(seconds * 1_000, 1),
        waited_seconds=round(seconds, 3) if has_waited else 0.0,
        gist=_gist(row, status, sent, body),
        request=contents(request.headers, sent),
        answer=None if response is None else contents(response.headers, body),
        about=body if row.makes and status < FIRST_FAILURE else b"",
    )


async def _sent_body(row: Route, request: web.Request, response: web.StreamResponse | None) -> bytes:
    """The body, if it was received: a request that was refused before is not read for the record."""
    if response is None or not row.body_limit_bytes or not request.content.is_eof():
        return b""
    try:
        return await request.read()
    except Exception:  # the handler has seen it, too, and the answer says so
        return b""


def _body_of(response: web.StreamResponse | None) -> bytes:
    body = response.body if isinstance(response, web.Response) else None
    return bytes(body) if isinstance(body, bytes | bytearray) else b""


def _gist(row: Route, status: int, sent: bytes, body: bytes) -> str:
    """The first fault of a failed request; of another, the summary that its route makes."""
    try:
        if status >= FIRST_FAILURE:
            return _trouble(body)[:_MOST_CHARACTERS]
        return "" if row.gist is None else row.gist(sent, body)[:_MOST_CHARACTERS]
    except (ValueError, TypeError, KeyError, AttributeError):  # the bodies are not as the route expects them
        return ""


def _trouble(body: bytes) -> str:
    """The first fault of a problem, with its place, or its detail."""
    problem = orjson.loads(body)
    for fault in problem.get("errors", ()):
        return f"{fault['pointer']} {fault['detail']}"
    return str(problem.get("detail", problem["title"]))
