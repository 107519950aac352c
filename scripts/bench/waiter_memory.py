"""What a waiting client costs in memory, beside a bare handler that waits on an event."""

import asyncio
from statistics import median

from plan import Plan
from processes import Running, started_ceiling, started_server
from report import Result, Target, spread
from seed import Population, fill
from waiters import Waiter, close_clients, open_waiters, run

_WAITERS = 5_000
_WARM_UP_WAITERS = 200


def measure_waiter_memory(plan: Plan) -> list[Result]:
    """Resident memory before and after the waiters came, per waiter; a fresh process each time."""
    bare, served = [], []
    for _ in range(min(plan.rounds, 3)):
        with plan.folder() as folder:
            calls = fill(folder, Population(1_000, calls_per_session=_WAITERS // 1_000)).pending
            with started_ceiling(folder, "--route", "/call-status/{id}", "--wait") as ceiling:
                bare.append(run(_kib_per_waiter(ceiling, calls)))
            with started_server(folder) as server:
                served.append(run(_kib_per_waiter(server, calls)))
    ratios = spread([server / ceiling for ceiling, server in zip(bare, served, strict=True)])
    figures = {"ceiling_kib": median(bare), "server_kib": median(served), **ratios}
    return [Result(f"a client among {_WAITERS:,}", figures, Target("ratio", 1.25))]


async def _kib_per_waiter(process: Running, calls: list[str]) -> float:
    close_clients(await _parked(process, calls[:_WARM_UP_WAITERS]))
    await asyncio.to_thread(process.wait_until_idle)
    before = process.resident_bytes()
    waiters = await _parked(process, calls)
    grown = process.resident_bytes() - before
    close_clients(waiters)
    return grown / len(waiters) / 1024


async def _parked(process: Running, calls: list[str]) -> list[Waiter]:
    waiters = await open_waiters(process.url, calls)
    await asyncio.to_thread(process.wait_until_idle)
    return waiters
