"""Figures of rooms, figures of requests by route and status, and the probes `/livez` and `/readyz`."""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web

from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.answers import text_answer
from bridge_server.web.routes import TEXT, About, DescribedAnswer, Route

BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_PATIENCE_SECONDS = 5.0

Gauges: TypeAlias = Callable[[], Mapping[str, float]]
"""Reads some figures at this moment, by name."""


class Family(NamedTuple):
    """Figures of one name for `/metrics`, as a room hands them over. `rows` are their values by the values of
    the labels, in the order of `labels`. `is_total` says that they begin at zero and only grow: they are
    counters for Prometheus.
    """

    name: str
    meaning: str
    rows: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    is_total: bool = False


Families: TypeAlias = Callable[[], Awaitable[Sequence[Family]]]
"""Reads all families at this moment."""


class RouteFigures:
    """Counts and durations of the requests of one route."""

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
        self.routes: dict[str, RouteFigures] = {}
        """The figures by the route's name."""

    def of_route(self, name: str) -> RouteFigures:
        """The figures of the route with this name."""
        return self.routes.setdefault(name, RouteFigures())


class _Figures:
    """All figures as prometheus_client collects them, which is loaded when somebody asks for them."""

    def __init__(self, requests: RequestFigures, families: Sequence[Family]) -> None:
        self._requests = requests
        self._others = families

    def collect(self) -> Iterable[Any]:
        core = import_module("prometheus_client.core")
        requests = core.CounterMetricFamily(
            "bridge_http_requests",
            "Requests answered; status 499 means that the client left.",
            labels=["route", "status"],
        )
        durations = core.HistogramMetricFamily(
            "bridge_http_request_seconds", "Time to answer, long polls included.", labels=["route"]
        )
        for name, route in self._requests.routes.items():
            for status, number in route.statuses.items():
                requests.add_metric([name, str(status)], number)
            if route.statuses:  # there was a request
                durations.add_metric([name], _cumulative(route.durations), route.seconds)
        yield from (requests, durations)
        for each in self._others:
            kind = core.CounterMetricFamily if each.is_total else core.GaugeMetricFamily
            family = kind(f"bridge_{each.name}", each.meaning, labels=each.labels)
            for values, value in each.rows.items():
                family.add_metric(values, value)
            yield family


def exposition(requests: RequestFigures, families: Sequence[Family]) -> tuple[bytes, str]:
    """Every figure of this moment in the Prometheus text format, and its Content-Type."""
    text = import_module("prometheus_client.exposition")
    return text.generate_latest(_Figures(requests, families)), text.CONTENT_TYPE_LATEST


def _cumulative(numbers: list[int]) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, number in zip([*map(str, BOUNDS_SECONDS), "+Inf"], numbers, strict=True):
        total += number
        buckets.append((bound, total))
    return buckets


SERVICE_TAG = "Operation"
"""The heading of routes that concern the service as a whole, in the description."""


class Readiness:
    """Whether the server can do its work, and what troubles it. `check_work` raises UnavailableError when it
    cannot. `troubles` returns the faults that last until an operator mends them.
    """

    def __init__(
        self, check_work: Callable[[], Awaitable[None]], troubles: Callable[[], Sequence[str]]
    ) -> None:
        self._check_work = check_work
        self.troubles = troubles

    async def check(self) -> None:
        """Raise UnavailableError when the server cannot do its work, or does not find out in time."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._check_work()
        except TimeoutError as error:
            raise UnavailableError("The database does not answer.") from error


def health_routes(readiness: Readiness) -> tuple[Route, ...]:
    """The two routes. /readyz prints the troubles, and its status stays 200."""

    async def live(_: web.Request) -> web.StreamResponse:
        """Answers as long as the process runs, whatever its database does."""
        return text_answer("alive\n")

    async def ready(_: web.Request) -> web.StreamResponse:
        """Reads and writes the database. Each line after the first names a trouble that lasts until an
        operator mends it; the status stays 200.
        """
        await readiness.check()
        return text_answer("".join(["ready\n", *(f"but {each}\n" for each in readiness.troubles())]))

    runs = DescribedAnswer(200, "It runs.", str, TEXT)
    works = DescribedAnswer(200, "`ready`, and a line `but ...` for each trouble.", str, TEXT)
    about_live = About(live, SERVICE_TAG, "Is the process alive", (runs,), needs_database=False)
    about_ready = About(ready, SERVICE_TAG, "Can the server do its work", (works,))
    return (
        Route("GET", "/livez", "livez", live, about=about_live),
        Route("GET", "/readyz", "readyz", ready, about=about_ready),
    )
