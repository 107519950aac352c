"""The outermost layer: a request's id, its figures, its line in the log."""

import asyncio
from time import perf_counter

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.web.connections import Connections
from bridge_server.web.exchanges import CLIENT_LEFT
from bridge_server.web.observing import Observer
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.request_id import HEADER, REQUEST_ID, RequestIds
from bridge_server.web.request_lines import RequestLines
from bridge_server.web.routes import Route

_SWITCHING_PROTOCOLS = 101
_TOO_MANY_REQUESTS = 429


def request_log(
    row: Route,
    request_ids: RequestIds,
    connections: Connections,
    figures: RequestFigures,
    lines: RequestLines,
    observer: Observer | None,
) -> Middleware:
    """Name and count every request of the route; while the server stops, end its connection.

    The observer is called here, and has no layer of its own, which would cost more than it does.
    """
    name, count = request_ids.name, figures.of_route(row.name).count
    begin, note = (None, None) if observer is None else observer.of_route(row)
    noteworthy_seconds = lines.noteworthy_seconds

    @web.middleware
    async def request_log(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = perf_counter()
        request[REQUEST_ID] = request_id = name(request)
        wait = None if begin is None else begin(request)
        try:
            response = await handler(request)
        except asyncio.CancelledError:
            seconds = perf_counter() - started
            count(CLIENT_LEFT, seconds)
            if note is not None:
                note(request, None, CLIENT_LEFT, started, seconds, wait)
            raise
        response.headers[HEADER] = request_id
        if connections.is_stopping:
            response.force_close()
        status = response.status
        if status == _SWITCHING_PROTOCOLS:
            await _switch(request, response)
        seconds = perf_counter() - started
        count(status, seconds)
        if seconds > noteworthy_seconds or status >= _TOO_MANY_REQUESTS:
            lines.note(request, row, status, seconds)
        if note is not None:
            note(request, response, status, started, seconds, wait)
        return response

    return request_log


async def _switch(request: web.Request, response: web.StreamResponse) -> None:
    """Leave HTTP while the handler runs: afterwards aiohttp goes on as if the upgrade was declined."""
    try:
        await response.prepare(request)
    except ConnectionError as error:
        raise asyncio.CancelledError from error
