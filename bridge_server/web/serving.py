"""From rows to an aiohttp application: one flat route table, every path of it behind the gateway. A path also
answers methods that have no row (405, or a browser's preflight), and one last row all other paths (404).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.web import middleware
from bridge_server.web.aiohttp_internals import QuickRoute, made_when_asked
from bridge_server.web.answers import REQUEST_ID_HEADER, ready_made, share
from bridge_server.web.connection import HAS_PAGES, PAGES_PATH, QUICK_ROUTES, GuardedRunner, RefusingRunner
from bridge_server.web.limits import TokenBuckets
from bridge_server.web.metrics import RequestFigures
from bridge_server.web.open_connections import CONNECTIONS, Connections
from bridge_server.web.problems import RequestIds, code_of_refusal, problem_of_refusal
from bridge_server.web.recorder import Observer
from bridge_server.web.request_log import RequestLines, note_refusal
from bridge_server.web.routes import ANY_PAGE, Access, Handler, Route, any_of, forgiving
from bridge_server.web.traffic import TrafficLog

_REFUSED = "refused"
_PREFLIGHT_HEADERS = ready_made({"Access-Control-Max-Age": "86400"})
_USUAL_HEADERS = "Content-Type, Prefer, X-Request-ID"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}", re.ASCII)
_ONE_ID = re.compile(r"/([a-z0-9-]+)/\{([a-z_]+):\[(?:A-Za-z0-9_-|\^/)\]\{1,128\}\}((?:/[a-z-]+)*)", re.ASCII)
"""A path with one id, such as /session/{session_id}/calls, as rows spell it."""

_SLACK_BYTES = 1
_KEEPALIVE_SECONDS = 75.0
_SHUTDOWN_SECONDS = 5.0


class Charging(NamedTuple):
    """The token buckets, and a function that saves what they were charged."""

    buckets: TokenBuckets
    save: Callable[[], Awaitable[None]]


class Watchers(NamedTuple):
    """The watchers of requests: the record of test mode, its ordered faults, and the operator's observer."""

    record: TrafficLog | None = None
    strike: middleware.Strike | None = None
    observer: Observer | None = None


NOBODY_WATCHES = Watchers()


class Gateway:
    """The layers of middleware around every handler, composed once per route from its row. A route pays for
    the layers that its row asks for, and for no others: aiohttp's own chain is built again for every request,
    which costs more than the layers do.
    """

    def __init__(
        self,
        request_ids: RequestIds,
        connections: Connections,
        charging: Charging,
        figures: RequestFigures,
        lines: RequestLines,
        watchers: Watchers = NOBODY_WATCHES,
    ) -> None:
        self._request_ids = request_ids
        self._connections = connections
        self._charging = charging
        self._figures = figures
        self._lines = lines
        self._watchers = watchers

    def count(self, row: Route) -> None:
        """Show the row's figures, which are zero before its first request."""
        self._figures.of_route(row.name)

    def around(self, row: Route) -> Handler:
        """The row's handler behind its layers. It always answers; only a client's departure is raised."""
        return middleware.behind(self.layers(row), row.handler, row)

    def layers(self, row: Route) -> Sequence[middleware.Layer | None]:
        """The order of all layers, outermost first; None in the place of a layer that the row does not need.
        An error of a layer or of the handler is answered, and leaves by all of them: a web page may read why
        it was refused, and a refusal is counted.
        """
        watchers = self._watchers
        return (
            middleware.request_log(
                row, self._request_ids, self._connections, self._figures, self._lines, watchers.observer
            ),
            middleware.recording(row, watchers.record),
            middleware.cors(row.access.any_origin, row.access.origins),
            middleware.plain_chunks(),
            middleware.faults(row, watchers.strike),
            middleware.bearer(row),
            middleware.rate_limits(row, self._connections.addresses, *self._charging),
            middleware.body(row.body_limit_bytes),
        )

    def refuse(self, has_help: bool, request: web.BaseRequest, status: int, detail: str) -> web.Response:
        """The answer to a request that could not be read, and so has no route. It is all that the three
        outermost layers make of a problem. No header was read, and so no origin.
        """
        request_id = self._request_ids.name(request)
        response = problem_of_refusal(status, detail, request_id, has_help)
        response.headers[REQUEST_ID_HEADER] = request_id
        share(response.headers)
        self._figures.of_route(_REFUSED).count(status, 0.0)
        note_refusal(request, _REFUSED, status, code_of_refusal(status), request_id)
        return response


_GATEWAY = web.AppKey("gateway", Gateway)


async def not_found(_: web.Request) -> NoReturn:
    """Answer that there is no such route."""
    raise web.HTTPNotFound


def build_application(
    rows: tuple[Route, ...], gateway: Gateway, otherwise: Handler = not_found
) -> web.Application:
    """An application that answers exactly the rows; `otherwise` is the handler of all other paths."""
    largest_body_bytes = max(row.body_limit_bytes for row in rows)
    application = web.Application(client_max_size=largest_body_bytes + _SLACK_BYTES)
    application[_GATEWAY] = gateway
    application[HAS_PAGES] = any(row.path == PAGES_PATH for row in rows)
    quick: list[QuickRoute] = []
    fixed: list[tuple[str, web.AbstractRoute]] = []
    forgiven = tuple(row._replace(path=forgiving(row.path)) for row in rows if row.forgives_slashes)
    by_path: dict[str, list[Route]] = {}
    for row in rows + forgiven:
        by_path.setdefault(row.path, []).append(row)
    for path, rows_of_path in by_path.items():
        for row in (*rows_of_path, _other_methods(path, rows_of_path)):
            route = _add(application, row, gateway)
            if row.method == "*":
                continue
            if (found := _ONE_ID.fullmatch(row.path)) is not None:
                quick.append(QuickRoute(found[1], found[2], found[3], route))
            elif "{" not in row.path:
                fixed.append((row.path, route))
    anything = Route("*", r"/{anything:[\s\S]*}", "unrouted", otherwise, ANY_PAGE)
    application[QUICK_ROUTES] = quick, fixed, _add(application, anything, gateway)
    return application


def runner_of(application: web.Application, shutdown_seconds: float = _SHUTDOWN_SECONDS) -> web.AppRunner:
    """Runs the application: a handler ends when its client leaves, and bodies come as they were sent.
    Stopping waits for requests under way, at most twice `shutdown_seconds`.
    """
    options: dict[str, Any] = {
        "access_log": None, "auto_decompress": False, "keepalive_timeout": _KEEPALIVE_SECONDS,
    }  # fmt: skip
    has_pages, connections = application[HAS_PAGES], application.get(CONNECTIONS)
    refuse = partial(application[_GATEWAY].refuse, has_pages)
    if connections is not None:
        return GuardedRunner(application, refuse, connections, shutdown_seconds, has_pages, **options)
    return RefusingRunner(
        application, refuse, handler_cancellation=True, shutdown_timeout=shutdown_seconds, **options
    )


def _add(application: web.Application, row: Route, gateway: Gateway) -> web.AbstractRoute:
    router = application.router
    add = router.add_get if row.method == "GET" else partial(router.add_route, row.method)
    gateway.count(row)
    return made_when_asked(partial(add, row.path, expect_handler=_continue), partial(gateway.around, row))


async def _continue(request: web.Request) -> None:
    """Ask for the body that the client holds back; an expectation that is unknown is ignored (RFC 9110)."""
    if request.headers["Expect"].lower() != "100-continue":
        return
    try:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    except ConnectionError as error:  # the client has left
        raise asyncio.CancelledError from error
    request.writer.output_size = 0  # the answer itself has not begun


def _other_methods(path: str, rows: list[Route]) -> Route:
    any_origin = any(row.access.any_origin for row in rows)
    access = Access(any_origin=any_origin, origins=any_of(row.access.origins for row in rows))
    return Route("*", path, "other-method", _other_method_handler(rows), access)


def _other_method_handler(rows: list[Route]) -> Handler:
    methods = {row.method for row in rows} | ({"HEAD"} if any(row.method == "GET" for row in rows) else set())
    open_methods = sorted(row.method for row in rows if row.access.any_origin or row.access.origins)
    allowed = methods | {"OPTIONS"} if open_methods else methods

    async def other_method(request: web.Request) -> web.StreamResponse:
        if request.method == "OPTIONS":
            _note_refusals(rows, request)  # the browser sends nothing else, and shows no reason
            if open_methods:
                wanted = request.headers.get("Access-Control-Request-Headers", "")
                response = web.Response(status=204, headers=_PREFLIGHT_HEADERS)
                response.headers["Access-Control-Allow-Methods"] = ", ".join(open_methods)
                response.headers["Access-Control-Allow-Headers"] = (
                    wanted if _HEADER_NAMES.fullmatch(wanted) else _USUAL_HEADERS
                )
                return response
        raise web.HTTPMethodNotAllowed(request.method, allowed)

    return other_method


def _note_refusals(rows: Iterable[Route], request: web.Request) -> None:
    for row in rows:
        guard, on_refusal = row.access.guard, row.access.on_refusal
        if guard is None or on_refusal is None:
            continue
        try:
            guard(request)
        except BridgeError as error:
            on_refusal(request, error)
