"""From rows to an aiohttp application: one flat route table, every path of it behind the gateway.

Each path also answers the methods that it has no row for (405, or a browser's preflight), and one last
row answers every other path (404), so that aiohttp's own error pages are never seen.
"""

from typing import NoReturn

from aiohttp import web

from bridge_server.web.cors import preflight
from bridge_server.web.endpoint import endpoint
from bridge_server.web.gateway import Gateway
from bridge_server.web.quotas import AddressQuotas
from bridge_server.web.routes import Handler, Route, rows_by_path

_SLACK_BYTES = 1


def build_application(rows: tuple[Route, ...], quotas: AddressQuotas, gateway: Gateway) -> web.Application:
    """An application that answers exactly the rows."""
    largest_body_bytes = max(row.body_limit_bytes for row in rows)
    application = web.Application(client_max_size=largest_body_bytes + _SLACK_BYTES)
    for row in (*rows, *_other_methods(rows), _anything_else()):
        handler = gateway.around(row, endpoint(row, quotas))
        if row.method == "GET":
            application.router.add_get(row.path, handler)
        else:
            application.router.add_route(row.method, row.path, handler)
    return application


def _other_methods(rows: tuple[Route, ...]) -> list[Route]:
    return [
        Route(
            method="*",
            path=path,
            name="other-method",
            handler=_other_method_handler(same_path),
            any_origin=any(row.any_origin for row in same_path),
        )
        for path, same_path in rows_by_path(rows).items()
    ]


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

    return Route(method="*", path="/{anything:.*}", name="unrouted", handler=not_found)
