"""How soon a waiting dapp hears of the wallet's answer while others have the wallet sign as fast as it can.

One signature a request, or a hundred. The ratio is the median latency by that of the same server when
nobody else asks for anything; for comparison, the same flood of requests that sign nothing (`eth_accounts`).
"""

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from cores import keep_on_first_core, on_last_core_meanwhile
from load import Load
from plan import Plan
from processes import Running, started_server
from report import Figures, Result, Target, percentile, spread
from rpc_load import BATCH, SIGN_MESSAGE, SIGN_MESSAGES, WALLET, rpc_body, rpc_load
from seed import Population, fill
from waiters import close_clients, open_asker, run
from wake_ups import probe

_PROBES = 60
_PROBE_PAUSE_SECONDS = 0.02
_WARM_UP_SECONDS = 0.5
_FLOOD_SECONDS = 4


@dataclass(frozen=True, slots=True)
class _Flood:
    name: str
    body: bytes
    bound: float | None


_FLOODS = (
    _Flood("requests that sign nothing", rpc_body("eth_accounts"), None),
    _Flood("one signature a request", SIGN_MESSAGE, 2),
    _Flood(f"{BATCH} signatures a request", SIGN_MESSAGES, 2),
)


@dataclass(frozen=True, slots=True)
class _Round:
    """Latencies in milliseconds, without a flood and in it."""

    quiet: list[float]
    busy: list[float]


def measure_signing_flood(plan: Plan) -> list[Result]:
    """Probes on a server that is idle, and then on the same while it signs."""
    return [_result(flood, [_round(flood, plan) for _ in range(min(plan.rounds, 3))]) for flood in _FLOODS]


def _round(flood: _Flood, plan: Plan) -> _Round:
    with plan.folder() as folder:
        calls = iter(fill(folder, Population(1_000, calls_per_session=1)).pending)
        with started_server(folder, WALLET) as server:
            keep_on_first_core(server.pid)
            server.wait_until_idle()
            with on_last_core_meanwhile():
                return run(_measure(server, calls, rpc_load(folder, flood.body), plan))


async def _measure(server: Running, calls: Iterator[str], load: Load, plan: Plan) -> _Round:
    dapp, wallet = await open_asker(server.url), await open_asker(server.url)
    gc.freeze()

    async def latency() -> float:
        await asyncio.sleep(_PROBE_PAUSE_SECONDS)
        return await probe(server.url, dapp, wallet, next(calls))

    for _ in range(10):
        await latency()
    quiet = [await latency() for _ in range(_PROBES)]
    flood = asyncio.ensure_future(asyncio.to_thread(plan.generator.run, server.url, load, _FLOOD_SECONDS, 0))
    await asyncio.sleep(_WARM_UP_SECONDS)
    busy = []
    while not flood.done():
        busy.append(await latency())
    await flood
    close_clients([dapp, wallet])
    return _Round(quiet, busy[:-1])  # the flood may have ended before the last


def _result(flood: _Flood, rounds: list[_Round]) -> Result:
    quiet = [latency for one in rounds for latency in one.quiet]
    busy = [latency for one in rounds for latency in one.busy]
    figures: Figures = {
        "idle_ms": median(quiet),
        "median_ms": median(busy),
        "p99_ms": percentile(busy, 99),
        "probes": len(busy),
        **spread([median(one.busy) / median(one.quiet) for one in rounds]),
    }
    target = None if flood.bound is None else Target("ratio", flood.bound)
    return Result(flood.name, figures, target)
