"""`GET /metrics`: what is counted, in the Prometheus text format."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bridge_server.kernel.errors import NotAuthenticatedError
from bridge_server.web.bearer import require_bearer
from bridge_server.web.problems import problem_of_error
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.routes import Handler

Gauges: TypeAlias = Callable[[], Mapping[str, float]]
"""Reads some figures at this moment, by name."""


class _Figures(Collector):
    def __init__(self, requests: RequestFigures, gauges: Gauges) -> None:
        self._requests = requests
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        yield from self._requests.collect()
        for name, value in self._gauges().items():
            gauge = GaugeMetricFamily(f"bridge_{name}", name.replace("_", " ").capitalize() + ".")
            gauge.add_metric([], value)
            yield gauge


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
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(requests, gauges))

    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics
