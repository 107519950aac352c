"""How soon a waiting dapp hears of the wallet's answer, beside a crowd that waits for something else, and
what a waiting client costs in memory.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

from clients import Asker, close_clients, encode, open_askers, run, wait_for_status
from load import in_turns
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Figures, Row, percentile, row
from requests_cost import STATUS_BODY
from seed import Population, fill

_CROWDS = (1, 1_000, 5_000, 10_000)
_PARKING_SECONDS = 0.01
_PATIENCE_SECONDS = 20.0
_BURST = 5_000
_WARM_UP_WAITERS = 200

Waiting = asyncio.Task[tuple[int, float]]


class _Crowd:
    """Clients that wait, each for the status of one call."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._dapps: list[Asker] = []
        self.waiting: list[Waiting] = []

    async def grow(self, calls: Sequence[str]) -> None:
        """Have so many more clients; they have asked when this returns, and wait very soon."""
        dapps = await open_askers(self._url, len(calls))
        self._dapps += dapps
        self.waiting += [
            asyncio.create_task(wait_for_status(dapp, self._url, call))
            for dapp, call in zip(dapps, calls, strict=True)
        ]
        await asyncio.sleep(0)

    async def leave(self) -> None:
        """Close all connections, which ends the waits."""
        close_clients(self._dapps)
        await asyncio.gather(*self.waiting, return_exceptions=True)


def measure_wake_ups(plan: Plan) -> Iterator[Row]:
    """The latency of single wake-ups beside growing crowds."""
    probes = plan.sized(40, 100)
    with plan.folder() as folder:
        probed = plan.rounds * len(_CROWDS) * probes
        calls = iter(fill(folder, Population(1_000, calls_per_session=11 + probed // 1_000)).calls)
        crowd = list(itertools.islice(calls, _CROWDS[-1]))
        with started_server(folder) as server:
            rounds = [run(_beside_crowds(server, crowd, calls, probes)) for _ in range(plan.rounds)]
    for size in _CROWDS:
        latencies = [latency for one in rounds for latency in one[size]]
        ratio = median(median(one[size]) / median(one[_CROWDS[0]]) for one in rounds)
        figures = {"median_ms": median(latencies), "p99_ms": percentile(latencies, 99), "ratio": ratio}
        yield row(f"{size:,} others waiting", figures)


async def _beside_crowds(
    server: Running, crowd_calls: Sequence[str], calls: Iterator[str], probes: int
) -> dict[int, list[float]]:
    """Let the crowd grow; at every size, the latencies of some probes."""
    dapp, wallet = await open_askers(server.url, 2)
    crowd = _Crowd(server.url)
    latencies: dict[int, list[float]] = {}
    for size in _CROWDS:
        await crowd.grow(crowd_calls[len(crowd.waiting) : size])
        await asyncio.to_thread(server.wait_until_idle)
        latencies[size] = [await _latency_ms(server.url, dapp, wallet, next(calls)) for _ in range(probes)]
    lost = sum(each.done() for each in crowd.waiting)
    await crowd.leave()
    close_clients([dapp, wallet])
    await asyncio.to_thread(server.wait_until_idle)
    if lost:
        raise MeasurementError(f"{lost} waiters that nobody called were answered or dropped")
    return latencies


async def _latency_ms(url: str, dapp: Asker, wallet: Asker, call: str) -> float:
    """From the wallet's POST until the dapp, which waits for this call, has its answer."""
    waiting = asyncio.create_task(wait_for_status(dapp, url, call))
    await asyncio.sleep(_PARKING_SECONDS)
    request = encode(url, "POST", f"/call-status/{call}/new", STATUS_BODY)
    started = time.perf_counter()
    posted = await wallet.ask(request)
    status, ended = await asyncio.wait_for(waiting, _PATIENCE_SECONDS)
    if (posted, status) != (200, 200):
        raise MeasurementError(f"the wallet was answered {posted}, the dapp {status}")
    return (ended - started) * 1e3


def measure_burst(plan: Plan) -> Iterator[Row]:
    """As many posts at once as there are waiters, each for another one; nobody may be forgotten."""
    bursts = []
    for _ in range(plan.few_rounds):
        with plan.folder() as folder:
            calls = fill(folder, Population(1_000, calls_per_session=_BURST // 1_000)).calls
            with started_server(folder) as server:
                bursts.append(run(_burst(server, calls)))
    figures = {
        "lost": sum(_BURST - len(latencies) for latencies in bursts),
        "median_ms": median(median(latencies or [0.0]) for latencies in bursts),
        "last_ms": median(max(latencies, default=0.0) for latencies in bursts),
    }
    yield row(f"{len(bursts)} x {_BURST:,} posts at once", figures)


async def _burst(server: Running, calls: Sequence[str]) -> list[float]:
    """The latencies of the waiters that were woken with a status."""
    crowd = _Crowd(server.url)
    await crowd.grow(calls)
    wallets = await open_askers(server.url, len(calls))
    await asyncio.to_thread(server.wait_until_idle)
    requests = [encode(server.url, "POST", f"/call-status/{call}/new", STATUS_BODY) for call in calls]
    started = time.perf_counter()
    posting = [
        asyncio.ensure_future(wallet.ask(request)) for wallet, request in zip(wallets, requests, strict=True)
    ]
    await asyncio.wait(posting, timeout=_PATIENCE_SECONDS)
    woken, _ = await asyncio.wait(crowd.waiting, timeout=_PATIENCE_SECONDS)
    if [post.result() for post in posting if post.done()] != [200] * len(calls):
        raise MeasurementError("a post was not answered 200")
    close_clients(wallets)
    await crowd.leave()
    answers = [each.result() for each in woken if not each.exception()]
    return [(at - started) * 1e3 for status, at in answers if status == 200]


def measure_waiter_memory(plan: Plan) -> Iterator[Row]:
    """Memory of each of 5,000 waiters, beside those of a bare handler that waits on an event."""
    sides = {name: partial(_waiter_kib, plan, name) for name in ("server", "ceiling")}
    figures = in_turns(plan.few_rounds, "kib", **sides)
    yield row(f"a client among {_BURST:,}", figures)


def _waiter_kib(plan: Plan, side: str) -> Figures:
    with plan.folder() as folder:
        calls = fill(folder, Population(1_000, calls_per_session=_BURST // 1_000)).calls
        ceiling = started_ceiling(folder, "wait", route="/call-status/{id}")
        with started_server(folder) if side == "server" else ceiling as process:
            return {"kib": run(_kib_per_waiter(process, calls))}


async def _kib_per_waiter(process: Running, calls: Sequence[str]) -> float:
    """Resident memory before and after the waiters came, per waiter."""
    warm_up, crowd = _Crowd(process.url), _Crowd(process.url)
    await warm_up.grow(calls[:_WARM_UP_WAITERS])
    await warm_up.leave()
    await asyncio.to_thread(process.wait_until_idle)
    before = process.resident_bytes()
    await crowd.grow(calls)
    await asyncio.to_thread(process.wait_until_idle)
    grown = process.resident_bytes() - before
    await crowd.leave()
    return grown / len(calls) / 1024
