"""The record of every request; composed only where the record is on."""

from time import perf_counter

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.web.prefer import preferred_seconds
from bridge_server.web.routes import Route
from bridge_server.web.traffic import Contents, Exchange, TrafficLog, contents, with_short_ids

_CLIENT_LEFT = 499
_FIRST_FAILURE = 400
_FORBIDDEN = 403
_MOST_CHARACTERS = 200


def traffic(row: Route, record: TrafficLog | None) -> Middleware | None:
    """Record every request of the route; None without a record, and for routes that only observe."""
    if record is None or row.only_observes:
        return None

    @web.middleware
    async def traffic(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = perf_counter()
        response: web.StreamResponse | None = None
        try:
            response = await handler(request)
            return response
        finally:
            record.note(await _exchange(row, record, request, response, perf_counter() - started))

    return traffic


async def _exchange(
    row: Route, record: TrafficLog, request: web.Request, response: web.StreamResponse | None, seconds: float
) -> Exchange:
    status = _CLIENT_LEFT if response is None else response.status
    sent, body = await _sent_body(row, request, response), _body_of(response)
    keeps = record.keeps_contents
    return Exchange(
        who="page" if status == _FORBIDDEN and "Origin" in request.headers else row.who,
        method=request.method,
        path=request.path_qs if keeps else with_short_ids(request.path),
        route=row.name,
        status=status,
        milliseconds=round(seconds * 1_000, 1),
        waited_seconds=round(seconds, 3) if row.waits and _asks_to_wait(request) else 0.0,
        gist=_gist(row, status, sent, body) if keeps else "",
        request=contents(request.headers, sent) if keeps else None,
        answer=_answer(response, body) if keeps and response is not None else None,
    )


def _asks_to_wait(request: web.Request) -> bool:
    preferences = ",".join(request.headers.getall("Prefer", ()))
    return bool(preferred_seconds(preferences)) or request.query.get("wait", "0") != "0"


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


def _answer(response: web.StreamResponse, body: bytes) -> Contents:
    return contents(response.headers, body)


def _gist(row: Route, status: int, sent: bytes, body: bytes) -> str:
    """The first fault of a failed request; of another, the summary that its route makes."""
    try:
        if status >= _FIRST_FAILURE:
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
