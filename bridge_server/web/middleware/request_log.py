"""The outermost layer: a request's id, its figures, its line in the log."""

import asyncio
from time import perf_counter

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.web.connections import Connections
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.request_id import HEADER, REQUEST_ID, RequestIds
from bridge_server.web.request_lines import RequestLines
from bridge_server.web.routes import Route

_SWITCHING_PROTOCOLS = 101
_TOO_MANY_REQUESTS = 429
_CLIENT_LEFT = 499


def request_log(
    row: Route,
    request_ids: RequestIds,
    connections: Connections,
    figures: RequestFigures,
    lines: RequestLines,
) -> Middleware:
    """Name and count every request of the route; while the server stops, end its connection."""
    name, count = request_ids.name, figures.of_route(row.name).count
    noteworthy_seconds = lines.noteworthy_seconds

    @web.middleware
    async def request_log(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = perf_counter()
        request[REQUEST_ID] = request_id = name(request)
        try:
            response = await handler(request)
        except asyncio.CancelledError:
            count(_CLIENT_LEFT, perf_counter() - started)
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
        return response

    return request_log


async def _switch(request: web.Request, response: web.StreamResponse) -> None:
    """Leave HTTP while the handler runs: afterwards aiohttp goes on as if the upgrade was declined."""
    try:
        await response.prepare(request)
    except ConnectionError as error:
        raise asyncio.CancelledError from error
