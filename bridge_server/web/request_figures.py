"""Counts and durations of requests, by route and status."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping

BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class RouteFigures:
    """Plain numbers of one route."""

    def __init__(self) -> None:
        self.statuses: defaultdict[int, int] = defaultdict(int)
        self.durations = [0] * (len(BOUNDS_SECONDS) + 1)
        self.seconds = 0.0

    def count(self, status: int, seconds: float) -> None:
        """Record one answered request."""
        self.statuses[status] += 1
        self.durations[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.seconds += seconds


class RequestFigures:
    """The figures of every route."""

    def __init__(self) -> None:
        self._routes: dict[str, RouteFigures] = {}

    @property
    def routes(self) -> Mapping[str, RouteFigures]:
        """The figures by the route's name."""
        return self._routes

    def of_route(self, name: str) -> RouteFigures:
        """The figures of the route with this name."""
        return self._routes.setdefault(name, RouteFigures())
