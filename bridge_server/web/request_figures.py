"""Counts of requests by route and status, and how long they took, for Prometheus."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

_BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class RouteFigures:
    """Plain numbers of one route."""

    def __init__(self) -> None:
        self.statuses: defaultdict[int, int] = defaultdict(int)
        self.durations = [0] * (len(_BOUNDS_SECONDS) + 1)
        self.seconds = 0.0

    def count(self, status: int, seconds: float) -> None:
        """Record one answered request."""
        self.statuses[status] += 1
        self.durations[bisect_left(_BOUNDS_SECONDS, seconds)] += 1
        self.seconds += seconds


class RequestFigures:
    """The figures of every route; metric families when somebody asks."""

    def __init__(self) -> None:
        self._routes: dict[str, RouteFigures] = {}

    def of_route(self, name: str) -> RouteFigures:
        """Where the requests of the route are counted."""
        return self._routes.setdefault(name, RouteFigures())

    def collect(self) -> Iterable[Metric]:
        """The figures as metric families (the Collector protocol of prometheus-client), of every route that
        was asked for something.
        """
        requests = CounterMetricFamily(
            "bridge_http_requests",
            "Requests answered; status 499 means that the client left.",
            labels=["route", "status"],
        )
        durations = HistogramMetricFamily(
            "bridge_http_request_seconds", "Time to answer, long polls included.", labels=["route"]
        )
        for name, figures in self._routes.items():
            if not figures.statuses:
                continue
            for status, number in figures.statuses.items():
                requests.add_metric([name, str(status)], number)
            durations.add_metric([name], _cumulative(figures.durations), figures.seconds)
        return [requests, durations]


def _cumulative(numbers: list[int]) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, number in zip([*map(str, _BOUNDS_SECONDS), "+Inf"], numbers, strict=True):
        total += number
        buckets.append((bound, total))
    return buckets
