"""`GET /metrics`: all figures in the Prometheus text format."""

from importlib import import_module

from aiohttp import web

from bridge_server.web.families import Families
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.routes import Handler


def metrics_handler(requests: RequestFigures, families: Families) -> Handler:
    """A handler that answers with every figure."""

    async def metrics(_: web.Request) -> web.StreamResponse:
        text = import_module("bridge_server.web.exposition")  # the first time; see there
        body = text.exposition(requests, await families())
        return web.Response(body=body, headers={"Content-Type": text.CONTENT_TYPE})

    return metrics
