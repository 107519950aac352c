"""How soon a waiting dapp hears of the wallet's answer while Web Push messages go out, each sealed for its
browser; and what sealing takes on one core.

`at full speed`: the push service answers at once, and the server sends as fast as it can. `at a steady rate`:
it takes its time, as real ones do, and the few requests that one service gets at once make little more than
the 500 a second that are asked for. The ratio is the median latency by that of the same server before the
messages are due.
"""

import asyncio
import gc
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from plan import Plan
from processes import MeasurementError, Running, started_server
from push_cost import wait_until_empty
from push_receiver import Receiver, started_receiver
from push_seed import fill_outbox, notices, webpush_urls
from report import Figures, Result, Target, percentile, spread
from seed import Population, fill
from waiters import close_clients, open_asker, run
from wake_ups import probe
from worker import started_worker

from bridge_server.push.keys import new_vapid_keys

_LEAST_RATE = 500
_LEAD_SECONDS = 10.0
_WARM_UP_SECONDS = 0.5
_PROBE_PAUSE_SECONDS = 0.02
_PROBES = 60
_SEALED = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """How the messages go out: how many are queued, and how long the push service takes to answer."""

    name: str
    messages: int
    answer_after_ms: float


_PACES = (Pace("at full speed", 8_000, 0.0), Pace("at a steady rate", 4_000, 3.0))


def measure_sealing(plan: Plan) -> list[Result]:
    """Messages a second, by the CPU time that the thread needs for one."""
    with started_worker("sealing.py") as worker:
        worker.cpu_us_each(_SEALED, 0)
        costs = [worker.cpu_us_each(_SEALED, 0) for _ in range(plan.rounds)]
    rates = [1e6 / cost for cost in costs]
    figures: Figures = {
        "sealing_us": median(costs),
        "per_second": median(rates),
        "least": min(rates),
        "greatest": max(rates),
    }
    return [Result("on one core", figures, Target("per_second", _LEAST_RATE, at_least=True))]


@dataclass(frozen=True, slots=True)
class _Round:
    """Latencies in milliseconds; how many messages went out in a second, at which cost."""

    quiet: list[float]
    busy: list[float]
    rate: float
    cpu_us: float


def measure_wake_ups_beside_pushes(plan: Plan) -> list[Result]:
    """Probes on a server that is idle, and then on the same while it pushes."""
    return [
        result
        for pace in _PACES
        for result in _results(pace, [_round(pace, plan) for _ in range(min(plan.rounds, 3))])
    ]


def _results(pace: Pace, rounds: list[_Round]) -> list[Result]:
    quiet = [latency for one in rounds for latency in one.quiet]
    busy = [latency for one in rounds for latency in one.busy]
    figures: Figures = {
        "idle_ms": median(quiet),
        "idle_p99_ms": percentile(quiet, 99),
        "median_ms": median(busy),
        "p99_ms": percentile(busy, 99),
        "probes": len(busy),
        "push_us": median(one.cpu_us for one in rounds),
        "push_rate": median(one.rate for one in rounds),
        **spread([median(one.busy) / median(one.quiet) for one in rounds]),
    }
    name = f"wake-ups beside pushes {pace.name}"
    return [
        Result(name, figures, Target("ratio", 2)),
        Result(
            f"pushes {pace.name}",
            {"push_rate": figures["push_rate"]},
            Target("push_rate", _LEAST_RATE, at_least=True),
        ),
    ]


def _round(pace: Pace, plan: Plan) -> _Round:
    with ExitStack() as stack:
        receiver = stack.enter_context(started_receiver(plan, pace.answer_after_ms))
        folder = stack.enter_context(plan.folder())
        calls = iter(fill(folder, Population(1_000, calls_per_session=1)).pending)
        due_at = time.time() + _LEAD_SECONDS
        urls = webpush_urls(receiver.url)
        lane = f"webpush {receiver.url}"
        fill_outbox(folder, notices(pace.messages, urls, lane, for_devices=False), round(due_at * 1e3))
        environment = {
            "BRIDGE_VAPID_PRIVATE_KEY": new_vapid_keys(os.urandom).private_key,
            "BRIDGE_VAPID_SUBJECT": "mailto:operator@example.org",
            "BRIDGE_ALLOW_PRIVATE_WEBHOOKS": "true",
        }
        server = stack.enter_context(started_server(folder, environment))
        server.wait_until_idle()
        return run(_measure(server, receiver, calls, due_at, folder, pace))


async def _measure(
    server: Running, receiver: Receiver, calls: Iterator[str], due_at: float, folder: Path, pace: Pace
) -> _Round:
    dapp, wallet = await open_asker(server.url), await open_asker(server.url)
    gc.freeze()

    async def latency() -> float:
        await asyncio.sleep(_PROBE_PAUSE_SECONDS)
        return await probe(server.url, dapp, wallet, next(calls))

    for _ in range(10):
        await latency()
    quiet = [await latency() for _ in range(_PROBES)]
    if time.time() > due_at:
        raise MeasurementError("the server took too long to start")
    await asyncio.sleep(max(0.0, due_at - 0.1 - time.time()))
    cpu = server.cpu_ns()
    await asyncio.to_thread(receiver.wait_for, 1)
    await asyncio.sleep(_WARM_UP_SECONDS)
    busy = []
    for number in itertools.count():
        if number % 10 == 0 and (await asyncio.to_thread(receiver.received)).count >= 0.95 * pace.messages:
            break
        busy.append(await latency())
    close_clients([dapp, wallet])
    received = await asyncio.to_thread(receiver.wait_for, pace.messages)
    await asyncio.to_thread(wait_until_empty, folder)
    return _Round(quiet, busy, received.rate, (server.cpu_ns() - cpu) / 1e3 / pace.messages)
