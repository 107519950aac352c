"""How soon a waiting dapp hears of the wallet's answer, however many others wait, and whether all do."""

import asyncio
import gc
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from plan import Plan
from processes import MeasurementError, Running, started_server
from raw_http import Asker, encode
from report import Figures, Result, Target, percentile, spread
from scenarios import STATUS_BODY
from seed import Population, fill
from waiters import Waiter, close_clients, open_asker, open_clients, open_waiters, run

_PARKING_SECONDS = 0.01
_PATIENCE_SECONDS = 20.0
_BURST = 5_000


def measure_wake_ups(plan: Plan) -> list[Result]:
    """The latency of single wake-ups beside growing crowds that wait for something else."""
    with plan.folder() as folder:
        probed = plan.rounds * len(plan.crowds) * plan.probes
        calls = iter(fill(folder, Population(1_000, calls_per_session=11 + probed // 1_000)).pending)
        with started_server(folder) as server:
            crowd_calls = list(itertools.islice(calls, plan.crowds[-1]))
            rounds = [run(_one_round(server, plan, crowd_calls, calls)) for _ in range(plan.rounds)]
    return [_crowd_result(crowd, rounds, plan.crowds[0]) for crowd in plan.crowds]


async def _one_round(
    server: Running, plan: Plan, crowd_calls: list[str], calls: Iterator[str]
) -> dict[int, list[float]]:
    """Let the crowd grow; at every size, the latencies of some probes in milliseconds."""
    dapp, wallet = await open_asker(server.url), await open_asker(server.url)
    crowd: list[Waiter] = []
    latencies: dict[int, list[float]] = {}
    gc.freeze()
    for size in plan.crowds:
        crowd += await open_waiters(server.url, crowd_calls[len(crowd) : size])
        await asyncio.to_thread(server.wait_until_idle)
        latencies[size] = [
            await probe(server.url, dapp, wallet, call) for call in itertools.islice(calls, plan.probes)
        ]
    lost = sum(waiter.woken.done() for waiter in crowd)
    close_clients([*crowd, dapp, wallet])
    await asyncio.to_thread(server.wait_until_idle)
    if lost:
        raise MeasurementError(f"{lost} waiters that nobody called were answered or dropped")
    return latencies


async def probe(url: str, dapp: Asker, wallet: Asker, call: str) -> float:
    """Milliseconds from the wallet's POST until the dapp, which waits for this call, has its answer."""
    polling = asyncio.ensure_future(_timed(dapp, encode(url, "GET", f"/call-status/{call}?wait=25")))
    await asyncio.sleep(_PARKING_SECONDS)
    request = encode(url, "POST", f"/call-status/{call}/new", STATUS_BODY)
    started = time.perf_counter()
    posted = await wallet.ask(request)
    status, ended = await asyncio.wait_for(polling, _PATIENCE_SECONDS)
    if (posted, status) != (200, 200):
        raise MeasurementError(f"the wallet was answered {posted}, the dapp {status}")
    return (ended - started) * 1e3


async def _timed(asker: Asker, request: bytes) -> tuple[int, float]:
    return await asker.ask(request), time.perf_counter()


def _crowd_result(crowd: int, rounds: list[dict[int, list[float]]], least: int) -> Result:
    everything = [latency for one in rounds for latency in one[crowd]]
    figures: Figures = {"median_ms": median(everything), "p99_ms": percentile(everything, 99)}
    figures |= spread([median(one[crowd]) / median(one[least]) for one in rounds])
    target = Target("ratio", 1.5) if crowd > least else None
    return Result(f"{crowd:,} others waiting", figures, target)


@dataclass(slots=True)
class _Burst:
    """What came of the posts and of the waiters."""

    refused: int = 0
    latencies: list[float] = field(default_factory=list)


def measure_burst(plan: Plan) -> list[Result]:
    """As many posts at once as there are waiters, each for another one; nobody may be forgotten."""
    bursts = []
    for _ in range(min(plan.rounds, 3)):
        with plan.folder() as folder:
            calls = fill(folder, Population(1_000, calls_per_session=_BURST // 1_000)).pending
            with started_server(folder) as server:
                bursts.append(run(_burst(server, calls)))
    figures: Figures = {
        "lost": sum(_BURST - len(burst.latencies) for burst in bursts),
        "refused_posts": sum(burst.refused for burst in bursts),
        "median_ms": median(median(burst.latencies or [0.0]) for burst in bursts),
        "last_ms": median(max(burst.latencies, default=0.0) for burst in bursts),
    }
    return [Result(f"{len(bursts)} x {_BURST:,} posts at once", figures, Target("lost", 0))]


async def _burst(server: Running, calls: list[str]) -> _Burst:
    waiters = await open_waiters(server.url, calls)
    wallets = [Asker() for _ in calls]
    await open_clients(server.url, wallets)
    await asyncio.to_thread(server.wait_until_idle)
    requests = [encode(server.url, "POST", f"/call-status/{call}/new", STATUS_BODY) for call in calls]
    started = time.perf_counter()
    posting = [
        asyncio.ensure_future(wallet.ask(request)) for wallet, request in zip(wallets, requests, strict=True)
    ]
    await asyncio.wait([*posting, *(waiter.woken for waiter in waiters)], timeout=_PATIENCE_SECONDS)
    burst = _Burst(refused=sum(not _succeeded(post) for post in posting))
    for waiter in waiters:
        if waiter.woken.done() and not waiter.woken.cancelled() and waiter.woken.result()[0] == 200:
            burst.latencies.append((waiter.woken.result()[1] - started) * 1e3)
    close_clients([*waiters, *wallets])
    return burst


def _succeeded(post: "asyncio.Future[int]") -> bool:
    return post.done() and not post.cancelled() and post.exception() is None and post.result() == 200
