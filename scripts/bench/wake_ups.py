"""How soon a waiting dapp hears of the wallet's answer, beside a crowd that waits for something else, and
what a waiting client costs in memory.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from clients import Asker, Waiter, close_clients, encode, open_askers, open_waiters, run
from load import in_turns
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Figures, Row, percentile, row
from requests_cost import STATUS_BODY
from seed import Population, fill

CROWDS = (1, 1_000, 5_000, 10_000)
_PARKING_SECONDS = 0.01
_PATIENCE_SECONDS = 20.0
_BURST = 5_000
_WARM_UP_WAITERS = 200


@dataclass(frozen=True, slots=True)
class Probe:
    """A dapp and a wallet, and the calls that the wallet is still to answer."""

    url: str
    dapp: Asker
    wallet: Asker
    calls: Iterator[str]

    async def latency_ms(self) -> float:
        """From the wallet's POST until the dapp, which waits for this call, has its answer."""
        call = next(self.calls)
        polling = asyncio.ensure_future(self._poll(call))
        await asyncio.sleep(_PARKING_SECONDS)
        request = encode(self.url, "POST", f"/call-status/{call}/new", STATUS_BODY)
        started = time.perf_counter()
        posted = await self.wallet.ask(request)
        status, ended = await asyncio.wait_for(polling, _PATIENCE_SECONDS)
        if (posted, status) != (200, 200):
            raise MeasurementError(f"the wallet was answered {posted}, the dapp {status}")
        return (ended - started) * 1e3

    async def latencies_ms(self, count: int) -> list[float]:
        """Of so many calls, one after the other."""
        return [await self.latency_ms() for _ in range(count)]

    async def _poll(self, call: str) -> tuple[int, float]:
        status = await self.dapp.ask(encode(self.url, "GET", f"/call-status/{call}?wait=25"))
        return status, time.perf_counter()

    def close(self) -> None:
        """Leave."""
        close_clients([self.dapp, self.wallet])


async def open_probe(url: str, calls: Iterator[str]) -> Probe:
    """Connect both."""
    dapp, wallet = await open_askers(url, 2)
    return Probe(url, dapp, wallet, calls)


def measure_wake_ups(plan: Plan) -> Iterator[Row]:
    """The latency of single wake-ups beside growing crowds."""
    probes = plan.sized(40, 100)
    with plan.folder() as folder:
        probed = plan.rounds * len(CROWDS) * probes
        calls = iter(fill(folder, Population(1_000, calls_per_session=11 + probed // 1_000)).pending)
        crowd = list(itertools.islice(calls, CROWDS[-1]))
        with started_server(folder) as server:
            rounds = [run(_beside_crowds(server, crowd, calls, probes)) for _ in range(plan.rounds)]
    for size in CROWDS:
        latencies = [latency for one in rounds for latency in one[size]]
        ratio = median(median(one[size]) / median(one[CROWDS[0]]) for one in rounds)
        figures = {"median_ms": median(latencies), "p99_ms": percentile(latencies, 99), "ratio": ratio}
        yield row(f"{size:,} others waiting", figures)


async def _beside_crowds(
    server: Running, crowd_calls: Sequence[str], calls: Iterator[str], probes: int
) -> dict[int, list[float]]:
    """Let the crowd grow; at every size, the latencies of some probes."""
    probe = await open_probe(server.url, calls)
    crowd: list[Waiter] = []
    latencies: dict[int, list[float]] = {}
    for size in CROWDS:
        crowd += await open_waiters(server.url, crowd_calls[len(crowd) : size])
        await asyncio.to_thread(server.wait_until_idle)
        latencies[size] = await probe.latencies_ms(probes)
    lost = sum(waiter.woken.done() for waiter in crowd)
    close_clients(crowd)
    probe.close()
    await asyncio.to_thread(server.wait_until_idle)
    if lost:
        raise MeasurementError(f"{lost} waiters that nobody called were answered or dropped")
    return latencies


def measure_burst(plan: Plan) -> Iterator[Row]:
    """As many posts at once as there are waiters, each for another one; nobody may be forgotten."""
    bursts = []
    for _ in range(plan.few_rounds):
        with plan.folder() as folder:
            calls = fill(folder, Population(1_000, calls_per_session=_BURST // 1_000)).pending
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
    waiters = await open_waiters(server.url, calls)
    wallets = await open_askers(server.url, len(calls))
    await asyncio.to_thread(server.wait_until_idle)
    requests = [encode(server.url, "POST", f"/call-status/{call}/new", STATUS_BODY) for call in calls]
    started = time.perf_counter()
    posting = [
        asyncio.ensure_future(wallet.ask(request)) for wallet, request in zip(wallets, requests, strict=True)
    ]
    await asyncio.wait(posting, timeout=_PATIENCE_SECONDS)
    await asyncio.wait([waiter.woken for waiter in waiters], timeout=_PATIENCE_SECONDS)
    if [post.result() for post in posting if post.done()] != [200] * len(calls):
        raise MeasurementError("a post was not answered 200")
    woken = [
        waiter.woken.result() for waiter in waiters if waiter.woken.done() and not waiter.woken.cancelled()
    ]
    close_clients([*waiters, *wallets])
    return [(at - started) * 1e3 for status, at in woken if status == 200]


def measure_waiter_memory(plan: Plan) -> Iterator[Row]:
    """Memory of each of 5,000 waiters, beside those of a bare handler that waits on an event."""
    sides = {name: partial(_waiter_kib, plan, name) for name in ("server", "ceiling")}
    figures = in_turns(plan.few_rounds, "kib", **sides)
    yield row(f"a client among {_BURST:,}", figures)


def _waiter_kib(plan: Plan, side: str) -> Figures:
    with plan.folder() as folder:
        calls = fill(folder, Population(1_000, calls_per_session=_BURST // 1_000)).pending
        ceiling = started_ceiling(folder, "wait", route="/call-status/{id}")
        with started_server(folder) if side == "server" else ceiling as process:
            return {"kib": run(_kib_per_waiter(process, calls))}


async def _kib_per_waiter(process: Running, calls: Sequence[str]) -> float:
    """Resident memory before and after the waiters came, per waiter."""
    close_clients(await open_waiters(process.url, calls[:_WARM_UP_WAITERS]))
    await asyncio.to_thread(process.wait_until_idle)
    before = process.resident_bytes()
    waiters = await open_waiters(process.url, calls)
    await asyncio.to_thread(process.wait_until_idle)
    grown = process.resident_bytes() - before
    close_clients(waiters)
    return grown / len(waiters) / 1024
