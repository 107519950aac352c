"""The server's own work: how soon it answers, its memory when idle, the cost of its sweeper to clients."""

import asyncio
import time
from collections.abc import Callable, Iterator
from statistics import median

from clients import close_clients, encode, fetch, open_askers, run
from plan import Plan
from processes import MeasurementError, Running, started_server
from report import Row, percentile, row
from seed import Population, count_rows, fill

_IDLE_SECONDS = 1.0
_PAUSE_SECONDS = 0.01
_QUIET_SECONDS = 5.0
_AFTERMATH_SECONDS = 2.0  # the log that the sweep has left is checkpointed then
_LIMIT_SECONDS = 240.0
# The session does not exist: one that does is answered from memory, where a stall would not show.
_REQUESTS = (
    ("GET", "/session/00000000-0000-4000-8000-000000000000", 404),
    ("POST", "/session/new", 200),
)


def measure_start(plan: Plan) -> Iterator[Row]:
    """From the spawn to the first 200, on an empty directory; then the memory of the idle process."""
    seconds, mebibytes = [], []
    for _ in range(max(plan.rounds, 5)):
        with plan.folder() as folder:
            spawned = time.perf_counter()
            with started_server(folder) as server:
                if (status := fetch(server.url, "GET", "/livez").status) != 200:
                    raise MeasurementError(f"/livez answered {status}")
                seconds.append(time.perf_counter() - spawned)
                time.sleep(_IDLE_SECONDS)
                mebibytes.append(server.resident_bytes() / 2**20)
    yield row("seconds to the first answer", {"seconds": median(seconds)})
    yield row("MiB while idle", {"mib": median(mebibytes)})


def measure_sweeping(plan: Plan) -> Iterator[Row]:
    """The longest of many requests while all that has expired is being deleted; and in quiet."""
    expired = Population(plan.sized(5_000, 20_000), calls_per_session=10, expired=True)
    with plan.folder() as folder:
        fill(folder, expired)
        left = "SELECT (SELECT count(*) FROM calls) + (SELECT count(*) FROM sessions WHERE id <= {})"

        def is_swept() -> bool:
            return not count_rows(folder, left.format(expired.sessions))

        with started_server(folder, {"BRIDGE_SWEEP_INTERVAL": "1"}) as server:
            for name, until in (("while sweeping", is_swept), ("nothing to sweep", lambda: True)):
                asked = zip(run(_latencies(server, until)), _REQUESTS, strict=True)
                for latencies, (method, path, status) in asked:
                    figures = {"median_ms": median(latencies), "p99_ms": percentile(latencies, 99)}
                    figures["longest_ms"] = max(latencies)
                    yield row(f"{method} {path[:12]} {status}, {name}", figures)


async def _latencies(server: Running, is_over: Callable[[], bool]) -> list[list[float]]:
    """Of every request at a low rate, each kind on a connection of its own, until it is over."""
    stop = asyncio.Event()
    asking = asyncio.gather(*(_ask_until(stop, server.url, *request) for request in _REQUESTS))
    await asyncio.to_thread(_wait_until, is_over)
    stop.set()
    return await asking


def _wait_until(is_over: Callable[[], bool]) -> None:
    time.sleep(_QUIET_SECONDS)
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not is_over():
        if time.monotonic() > deadline:
            raise MeasurementError("the sweeper did not end")
        time.sleep(0.2)
    time.sleep(_AFTERMATH_SECONDS)


async def _ask_until(stop: asyncio.Event, url: str, method: str, path: str, expected: int) -> list[float]:
    (asker,) = await open_askers(url, 1)
    latencies, request = [], encode(url, method, path)
    while not stop.is_set():
        started = time.perf_counter()
        if (status := await asker.ask(request)) != expected:
            raise MeasurementError(f"{method} {path} was answered {status}, not {expected}")
        latencies.append((time.perf_counter() - started) * 1e3)
        await asyncio.sleep(_PAUSE_SECONDS)
    close_clients([asker])
    return latencies
