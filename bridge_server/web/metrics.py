"""`GET /metrics`: what is counted, in the Prometheus text format."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.routes import Handler

Gauges: TypeAlias = Callable[[], Mapping[str, float]]
"""Reads some figures at this moment, by name. What only grows has a name that ends in `_total`."""

_GROWING = "_total"


class _Figures(Collector):
    def __init__(self, requests: RequestFigures, gauges: Gauges) -> None:
        self._requests = requests
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        yield from self._requests.collect()
        for name, value in self._gauges().items():
            kind = CounterMetricFamily if name.endswith(_GROWING) else GaugeMetricFamily
            plain = name.removesuffix(_GROWING)
            family = kind(f"bridge_{plain}", plain.replace("_", " ").capitalize() + ".")
            family.add_metric([], value)
            yield family


def metrics_handler(requests: RequestFigures, gauges: Gauges) -> Handler:
    """A handler that answers with every figure."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(requests, gauges))

    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics
