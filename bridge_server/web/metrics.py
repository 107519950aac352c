"""`GET /metrics`: all figures in the Prometheus text format."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias

from aiohttp import web

from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.routes import Handler

Gauges: TypeAlias = Callable[[], Mapping[str, float]]
"""Reads some figures at this moment, by name."""


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one name. `rows` are their values by the values of the labels, in the order of `labels`.

    `is_total` says that they begin at zero and only grow: they are counters for Prometheus.
    """

    name: str
    meaning: str
    rows: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    is_total: bool = False


Families: TypeAlias = Callable[[], Awaitable[Sequence[Family]]]
"""Reads all families at this moment."""


def metrics_handler(requests: RequestFigures, families: Families) -> Handler:
    """A handler that answers with every figure."""

    async def metrics(_: web.Request) -> web.StreamResponse:
        text = import_module("bridge_server.web.exposition")  # the first time; see there
        body = text.exposition(requests, await families())
        return web.Response(body=body, headers={"Content-Type": text.CONTENT_TYPE})

    return metrics
