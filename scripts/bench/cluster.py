"""Two `serve` processes on one PostgreSQL database: wake-ups between them, and their rate."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from durable_postgres import durable_cluster
from machine import new_event_loop
from plan import Plan
from processes import MeasurementError
from report import Row, percentile, row

_WAIT = {"Prefer": "wait=20"}
_WRITES_PER_SECOND = 1_000
_CLIENTS = 16
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

Measured = Callable[[Plan, Path, Any], Coroutine[Any, Any, list[Row]]]


def measure_cluster(plan: Plan) -> Iterator[Row]:
    """Wake-ups across processes, also with the announcement lost, and the rate of two processes by one's."""
    yield from with_cluster(plan, _wake_ups)
    yield from with_cluster(plan, _lost_announcements)
    yield from with_cluster(plan, _rates)


def with_cluster(plan: Plan, measured: Measured) -> list[Row]:
    """The rows of a measurement that is given a private PostgreSQL server."""
    with durable_cluster() as cluster:
        from tests.support.programs import close_fork_server  # noqa: PLC0415 - not a script's path

        try:
            with plan.folder() as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(measured(plan, folder, cluster))
        finally:
            close_fork_server()


@asynccontextmanager
async def processes_of(url: str, folder: Path, count: int = 2, **more: Any) -> AsyncIterator[list[Any]]:
    """So many processes on the database of the URL."""
    from tests.cluster.processes import UNBOUNDED, processes_over  # noqa: PLC0415 - not a script's path

    async with processes_over(url, folder, count, **UNBOUNDED, **more) as found:
        yield found


async def _wake_ups(plan: Plan, folder: Path, cluster: Any) -> list[Row]:
    """From the answer to a wallet at one process to that of the dapp that waits at another."""
    async with processes_of(cluster.url(), folder) as (first, second):
        stop = asyncio.Event()
        writing = [asyncio.create_task(_write_steadily(each, stop)) for each in (first, second)]
        began = time.perf_counter()
        latencies = [await _latency_ms(first, second) for _ in range(plan.sized(200, 1_000))]
        seconds = time.perf_counter() - began
        stop.set()
        writes = sum(await asyncio.gather(*writing))
    figures = {
        "median_ms": median(latencies),
        "p99_ms": percentile(latencies, 99),
        "writes_per_second": writes / seconds,
    }
    return [row("another process", figures)]


async def _write_steadily(process: Any, stop: asyncio.Event) -> int:
    """Half of the writes of a second, spread over it; returns how many there were."""
    session_id = await process.server.open_session()
    tasks: set[asyncio.Task[float]] = set()
    count, began = 0, time.perf_counter()
    while not stop.is_set():
        due = (time.perf_counter() - began) * _WRITES_PER_SECOND / 2
        while count < due and len(tasks) < _CLIENTS:
            count += 1
            task = asyncio.create_task(_put(process, session_id))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(0.002)
    await asyncio.gather(*tasks)
    return count


async def _put(process: Any, session_id: str) -> float:
    """Write a session's payload; returns the time of the answer."""
    path = f"{process.url}/session/{session_id}"
    async with process.server.client.put(path, json={"encryptionPayload": "sealed"}) as response:
        if response.status != 200:
            raise MeasurementError(f"a write was answered {response.status}")
        return time.perf_counter()


async def _poll(process: Any, session_id: str) -> float:
    async with process.server.client.get(f"{process.url}/session/{session_id}", headers=_WAIT) as response:
        if response.status != 200:
            raise MeasurementError(f"a waiting dapp was answered {response.status}")
        return time.perf_counter()


async def _latency_ms(dapp: Any, wallet: Any) -> float:
    session_id = await dapp.server.open_session()
    waiting = asyncio.create_task(_poll(dapp, session_id))
    await asyncio.sleep(0.02)
    answered = await _put(wallet, session_id)
    return (await waiting - answered) * 1e3


async def _lost_announcements(plan: Plan, folder: Path, cluster: Any) -> list[Row]:
    """A process commits and cannot announce it: the others find it by the counts of commits."""
    from tests.support.proxies import open_cutting_proxy  # noqa: PLC0415 - not a script's path

    async with open_cutting_proxy(cluster.url()) as proxy:
        own = [{}, {"database_direct": proxy.url}]
        async with processes_of(cluster.url(), folder, own=own) as (first, second):
            proxy.is_refusing = True
            proxy.cut_all()
            latencies = [await _latency_ms(first, second) for _ in range(plan.sized(5, 20))]
    return [
        row("the announcement lost", {"median_ms": median(latencies), "most_ms": max(latencies)}),
    ]


async def _rates(plan: Plan, folder: Path, cluster: Any) -> list[Row]:
    """Conversations a second at one process, then at two. Clients and PostgreSQL share the processors."""
    async with processes_of(cluster.url(), folder) as pair:
        rounds: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        for number in range(plan.rounds + 1):  # the first pays for preparations, and is not counted
            for count, found in rounds.items():
                measured = await _rate(pair[:count], plan.seconds)
                found += [measured] if number else []
    figures = {"processors": float(os.cpu_count() or 1)}
    for count, found in rounds.items():
        figures[f"per_second_{count}"] = median(rate for rate, _ in found)
        figures[f"server_us_{count}"] = median(us for _, us in found)
    pairs = zip(rounds[1], rounds[2], strict=True)
    figures["ratio"] = median(two[0] / one[0] for one, two in pairs)
    return [row("two processes, by one", figures)]


async def _rate(processes: list[Any], seconds: int) -> tuple[float, float]:
    """Requests per second, and microseconds of the servers' processor time per request."""
    from tests.support.loads import Ledger, PatientLoad  # noqa: PLC0415 - not a script's path

    ledger, cpu, began = Ledger(), _cpu_seconds(processes), time.perf_counter()
    loads = [
        asyncio.create_task(
            PatientLoad(each.server.client, each.url, ledger, Random(1)).run(64 // len(processes))
        )
        for each in processes
    ]
    await asyncio.sleep(seconds)
    answers, passed = ledger.answers, time.perf_counter() - began
    spent = _cpu_seconds(processes) - cpu
    await cancelled(loads)
    return answers / passed, spent / answers * 1e6


def _cpu_seconds(processes: list[Any]) -> float:
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_SECOND


async def cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """End the tasks. Raises what one of them has raised."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
