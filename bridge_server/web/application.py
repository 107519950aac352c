"""From rows to an aiohttp application: one flat route table, every path of it behind the gateway.

Each path also answers the methods that it has no row for (405, or a browser's preflight), and one last
row answers every other path (404), so that aiohttp's own error pages are never seen.
"""

from typing import NoReturn

from aiohttp import web

from bridge_server.web.cors import preflight
from bridge_server.web.gateway import Gateway
from bridge_server.web.routes import Handler, Route, rows_by_path

_SLACK_BYTES = 1


def build_application(rows: tuple[Route, ...], gateway: Gateway) -> web.Application:
    """An application that answers exactly the rows."""
    largest_body_bytes = max(row.body_limit_bytes for row in rows)
    application = web.Application(client_max_size=largest_body_bytes + _SLACK_BYTES)
    for path, rows_of_path in rows_by_path(rows).items():
        for row in (*rows_of_path, _other_methods(path, rows_of_path)):
            _add(application, row, gateway)
    _add(application, _anything_else(), gateway)
    return application


def _add(application: web.Application, row: Route, gateway: Gateway) -> None:
    if row.method == "GET":
        application.router.add_get(row.path, gateway.around(row))
    else:
        application.router.add_route(row.method, row.path, gateway.around(row))


def _other_methods(path: str, rows: list[Route]) -> Route:
    return Route(
        method="*",
        path=path,
        name="other-method",
        handler=_other_method_handler(rows),
        any_origin=any(row.any_origin for row in rows),
    )


def _other_method_handler(rows: list[Route]) -> Handler:
    methods = {row.method for row in rows} | ({"HEAD"} if any(row.method == "GET" for row in rows) else set())
    open_methods = sorted(row.method for row in rows if row.any_origin)
    allowed = methods | {"OPTIONS"} if open_methods else methods

    async def other_method(request: web.Request) -> web.StreamResponse:
        if open_methods and request.method == "OPTIONS":
            return preflight(request, open_methods)
        raise web.HTTPMethodNotAllowed(request.method, allowed)

    return other_method


def _anything_else() -> Route:
    async def not_found(_: web.Request) -> NoReturn:
        raise web.HTTPNotFound

    return Route(method="*", path="/{anything:.*}", name="unrouted", handler=not_found, any_origin=True)
