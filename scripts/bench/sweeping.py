"""Whether deleting what expired makes anybody wait."""

import asyncio
import sqlite3
import time
from pathlib import Path

from plan import Plan
from processes import MeasurementError, Running, started_server
from raw_http import encode
from report import Figures, Result, Target, percentile
from seed import Population, database_file, fill, put_living_before
from waiters import close_clients, open_asker, run

_CALLS_PER_SESSION = 10
_PAUSE_SECONDS = 0.01
_QUIET_SECONDS = 5.0
_LIMIT_SECONDS = 240.0
_AFTERMATH_SECONDS = 2.0  # the log that the sweep has left is checkpointed then
_SWEEP_SOON = {"BRIDGE_SWEEP_INTERVAL": "1"}
# The session does not exist: one that does is answered from memory, where a stall would not show.
_REQUESTS = {
    "GET /session/{id}": ("GET", "/session/00000000-0000-4000-8000-000000000000", 404),
    "POST /session/new": ("POST", "/session/new", 200),
}

Latencies = dict[str, list[float]]
"""In milliseconds, by request."""


def measure_sweeping(plan: Plan) -> list[Result]:
    """The longest of many requests while all that has expired is being deleted; and in quiet.

    Alone in the database, and behind very many sessions that live: the sweeper has to pass them.
    """
    return [*_measure(plan, 0), *_measure(plan, plan.living_sessions)]


def _measure(plan: Plan, living: int) -> list[Result]:
    expired = Population(plan.expired_sessions, calls_per_session=_CALLS_PER_SESSION, expired=True)
    with plan.folder() as folder:
        fill(folder, expired)
        if living:
            put_living_before(folder, living)
        with started_server(folder, _SWEEP_SOON) as server:
            swept = run(_while_sweeping(server, database_file(folder), living + expired.sessions))
            quiet = run(_for_a_while(server))
    calls = f"{expired.sessions * _CALLS_PER_SESSION:,} expired calls"
    nothing = "nothing to sweep"
    if living:
        calls, nothing = (f"{words} and {living:,} living sessions" for words in (calls, nothing))
    return [
        *(_result(f"{name}, {calls}", swept[name], Target("longest_ms", 50)) for name in _REQUESTS),
        *(_result(f"{name}, {nothing}", quiet[name]) for name in _REQUESTS),
    ]


def _result(name: str, latencies: list[float], target: Target | None = None) -> Result:
    figures: Figures = {
        "requests": len(latencies),
        "median_ms": percentile(latencies, 50),
        "p99_ms": percentile(latencies, 99),
        "longest_ms": max(latencies),
    }
    return Result(name, figures, target)


async def _while_sweeping(server: Running, database: Path, last_session: int) -> Latencies:
    stop = asyncio.Event()
    asking = asyncio.ensure_future(_ask_until(server.url, stop))
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not asking.done() and await asyncio.to_thread(_something_left, database, last_session):
        if time.monotonic() > deadline:
            raise MeasurementError("the sweeper did not end")
        await asyncio.sleep(0.2)
    await asyncio.sleep(_AFTERMATH_SECONDS)
    stop.set()
    return await asking


async def _for_a_while(server: Running) -> Latencies:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(_QUIET_SECONDS, stop.set)
    return await _ask_until(server.url, stop)


def _something_left(database: Path, last_session: int) -> bool:
    """Whether calls are left, or the last of the sessions that have expired."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)
    try:
        left = "SELECT EXISTS (SELECT 1 FROM calls) OR EXISTS (SELECT 1 FROM sessions WHERE id = ?)"
        return bool(connection.execute(left, (last_session,)).fetchone()[0])
    finally:
        connection.close()


async def _ask_until(url: str, stop: asyncio.Event) -> Latencies:
    """Every request at a low rate, each kind on a connection of its own."""
    latencies: Latencies = {name: [] for name in _REQUESTS}

    async def ask(name: str, method: str, path: str, expected: int) -> None:
        asker, request = await open_asker(url), encode(url, method, path)
        while not stop.is_set():
            started = time.perf_counter()
            status = await asker.ask(request)
            latencies[name].append((time.perf_counter() - started) * 1e3)
            if status != expected:
                raise MeasurementError(f"{name} was answered {status}, not {expected}")
            await asyncio.sleep(_PAUSE_SECONDS)
        close_clients([asker])

    await asyncio.gather(*(ask(name, *request) for name, request in _REQUESTS.items()))
    return latencies
