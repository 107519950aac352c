"""`GET /metrics`: what is counted, in the Prometheus text format."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from aiohttp import web

from bridge_server.kernel.errors import NotAuthenticatedError
from bridge_server.web.bearer import require_bearer
from bridge_server.web.problems import problem_of_error
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.routes import Handler

Gauges: TypeAlias = Callable[[], Mapping[str, float]]
"""Reads some figures at this moment, by name."""


def for_bearer(handler: Handler, may_pass: Callable[[str], bool]) -> Handler:
    """The handler on a port of its own, where no gateway is in front, for the bearer of a token."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        try:
            require_bearer(request, may_pass)
        except NotAuthenticatedError as error:
            return problem_of_error(error, request_id="")
        return await handler(request)

    return guarded


def metrics_handler(requests: RequestFigures, gauges: Gauges) -> Handler:
    """A handler that answers with every figure."""

    async def metrics(_: web.Request) -> web.StreamResponse:
        text = import_module("bridge_server.web.exposition")  # the first time; see there
        body = text.exposition(requests, gauges())
        return web.Response(body=body, headers={"Content-Type": text.CONTENT_TYPE})

    return metrics
