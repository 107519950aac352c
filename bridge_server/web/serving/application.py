"""From rows to an aiohttp application: one flat route table, every path of it behind the gateway.

Each path also answers the methods that it has no row for (405, or a browser's preflight), and one last
row answers every other path (404). A request that cannot be read is refused with a problem, too.
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from aiohttp import web

from bridge_server.web.allowed_origins import any_of
from bridge_server.web.connection import GuardedRunner
from bridge_server.web.connections import CONNECTIONS
from bridge_server.web.middleware.bearer import note_refusals
from bridge_server.web.middleware.cors import preflight
from bridge_server.web.problem_links import HAS_PAGES, PAGES_PATH
from bridge_server.web.refusals import RefusingRunner
from bridge_server.web.routes import Handler, Route, forgiving, rows_by_path
from bridge_server.web.serving.gateway import Gateway

_SLACK_BYTES = 1
_KEEPALIVE_SECONDS = 75.0
_SHUTDOWN_SECONDS = 5.0
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
    forgiven = tuple(replace(row, path=forgiving(row.path)) for row in rows if row.forgives_slashes)
    for path, rows_of_path in rows_by_path(rows + forgiven).items():
        for row in (*rows_of_path, _other_methods(path, rows_of_path)):
            _add(application, row, gateway)
    _add(application, _anything_else(otherwise), gateway)
    return application


def runner_of(application: web.Application, shutdown_seconds: float = _SHUTDOWN_SECONDS) -> web.AppRunner:
    """Runs the application: a handler ends when its client leaves, and bodies come as they were sent.

    Stopping waits for requests under way, at most twice `shutdown_seconds`.
    """
    options: dict[str, Any] = {
        "access_log": None,
        "auto_decompress": False,
        "keepalive_timeout": _KEEPALIVE_SECONDS,
    }
    has_pages, connections = application[HAS_PAGES], application.get(CONNECTIONS)
    refuse = partial(application[_GATEWAY].refuse, has_pages)
    if connections is not None:
        return GuardedRunner(application, refuse, connections, shutdown_seconds, has_pages, **options)
    return RefusingRunner(
        application, refuse, handler_cancellation=True, shutdown_timeout=shutdown_seconds, **options
    )


def _add(application: web.Application, row: Route, gateway: Gateway) -> None:
    add = (
        application.router.add_get
        if row.method == "GET"
        else partial(application.router.add_route, row.method)
    )
    add(row.path, gateway.around(row), expect_handler=_continue)


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
    return Route(
        method="*",
        path=path,
        name="other-method",
        handler=_other_method_handler(rows),
        any_origin=any(row.any_origin for row in rows),
        origins=any_of(row.origins for row in rows),
    )


def _other_method_handler(rows: list[Route]) -> Handler:
    methods = {row.method for row in rows} | ({"HEAD"} if any(row.method == "GET" for row in rows) else set())
    open_methods = sorted(row.method for row in rows if row.any_origin or row.origins)
    allowed = methods | {"OPTIONS"} if open_methods else methods

    async def other_method(request: web.Request) -> web.StreamResponse:
        if request.method == "OPTIONS":
            note_refusals(
                rows, request
            )  # the browser sends no more than this, and no reason appears anywhere
            if open_methods:
                return preflight(request, open_methods)
        raise web.HTTPMethodNotAllowed(request.method, allowed)

    return other_method


def _anything_else(handler: Handler) -> Route:
    return Route(method="*", path=r"/{anything:[\s\S]*}", name="unrouted", handler=handler, any_origin=True)
