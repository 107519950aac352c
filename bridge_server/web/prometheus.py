"""The figures in the Prometheus text format; loaded when they are asked for."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bridge_server.web.metrics import BOUNDS_SECONDS, Family, RequestFigures

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Figures(Collector):
    def __init__(self, requests: RequestFigures, families: Sequence[Family]) -> None:
        self._requests = requests
        self._others = families

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "bridge_http_requests",
            "Requests answered; status 499 means that the client left.",
            labels=["route", "status"],
        )
        durations = HistogramMetricFamily(
            "bridge_http_request_seconds", "Time to answer, long polls included.", labels=["route"]
        )
        for name, route in self._requests.routes.items():
            for status, number in route.statuses.items():
                requests.add_metric([name, str(status)], number)
            if route.statuses:  # there was a request
                durations.add_metric([name], _cumulative(route.durations), route.seconds)
        yield from (requests, durations)
        for each in self._others:
            kind = CounterMetricFamily if each.is_total else GaugeMetricFamily
            family = kind(f"bridge_{each.name}", each.meaning, labels=each.labels)
            for values, value in each.rows.items():
                family.add_metric(values, value)
            yield family


def exposition(requests: RequestFigures, families: Sequence[Family]) -> bytes:
    """Every figure of this moment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(requests, families))
    return generate_latest(registry)


def _cumulative(numbers: list[int]) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, number in zip([*map(str, BOUNDS_SECONDS), "+Inf"], numbers, strict=True):
        total += number
        buckets.append((bound, total))
    return buckets
