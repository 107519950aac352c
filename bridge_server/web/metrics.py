"""`GET /metrics`: all figures in the Prometheus text format."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from aiohttp import web

from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.routes import Handler

Gauges: TypeAlias = Callable[[], Mapping[str, float]]
"""Reads some figures at this moment, by name. What only grows has a name that ends in `_total`."""


def metrics_handler(requests: RequestFigures, gauges: Gauges) -> Handler:
    """A handler that answers with every figure."""

    async def metrics(_: web.Request) -> web.StreamResponse:
        text = import_module("bridge_server.web.exposition")  # the first time; see there
        body = text.exposition(requests, gauges())
        return web.Response(body=body, headers={"Content-Type": text.CONTENT_TYPE})

    return metrics
