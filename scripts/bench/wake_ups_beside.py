"""How soon a waiting dapp hears of the wallet's answer while the server does all the work that it can.

It signs, one signature a request or a hundred; or it seals and sends Web Push messages, to a push service
that answers at once (`at full speed`) or takes its time, as real ones do (`at a steady rate`). The ratio is
the median latency by that of the same server when it does nothing else.
"""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median

from clients import run
from load import Requests, Side
from machine import keep_on_first_core, on_core
from plan import Plan
from processes import MeasurementError, Running, started_server
from pushes import Receiver, started_receiver
from report import Figures, Row, percentile, row
from requests_cost import BATCH, SIGN_MESSAGE, SIGN_MESSAGES, WALLET, rpc_body
from seed import Population, fill
from seed_outbox import fill_outbox, notices, wait_until_empty, webpush_urls
from wake_ups import Probe, open_probe

from bridge_server.push.keys import new_vapid_keys

_PROBES = 60
_PROBE_PAUSE_SECONDS = 0.02
_WARM_UP_SECONDS = 0.5
_FLOOD_SECONDS = 4
_LEAD_SECONDS = 10.0
_FLOODS = {
    "requests that sign nothing": rpc_body("eth_accounts"),
    "one signature a request": SIGN_MESSAGE,
    f"{BATCH} signatures a request": SIGN_MESSAGES,
}


@dataclass(frozen=True, slots=True)
class _Round:
    """Latencies in milliseconds, in quiet and beside the work."""

    quiet: list[float]
    busy: list[float]


@dataclass(frozen=True, slots=True)
class _Pace:
    """How many messages are queued, and how long the push service takes to answer."""

    name: str
    messages: int
    answer_after_ms: float


_PACES = (_Pace("at full speed", 8_000, 0.0), _Pace("at a steady rate", 4_000, 3.0))


def measure_beside_signing(plan: Plan) -> Iterator[Row]:
    """Beside others who have the wallet sign, and beside as many requests that sign nothing."""
    for name, body in _FLOODS.items():
        rounds = [_beside_flood(body, plan) for _ in range(plan.few_rounds)]
        yield row(name, _figures(rounds))


def measure_beside_pushes(plan: Plan) -> Iterator[Row]:
    """Beside Web Push messages that go out."""
    for pace in _PACES:
        rounds, rates = [], []
        for _ in range(plan.few_rounds):
            with started_receiver(plan, pace.answer_after_ms) as receiver:
                rounds.append(_beside_pushes(pace, receiver, plan))
                rates.append(receiver.received()["rate"])
        figures = {**_figures(rounds), "push_rate": median(rates)}
        yield row(f"wake-ups beside pushes {pace.name}", figures)


def _figures(rounds: list[_Round]) -> Figures:
    quiet = [latency for one in rounds for latency in one.quiet]
    busy = [latency for one in rounds for latency in one.busy]
    return {
        "idle_ms": median(quiet),
        "median_ms": median(busy),
        "p99_ms": percentile(busy, 99),
        "probes": len(busy),
        "ratio": median(median(one.busy) / median(one.quiet) for one in rounds),
    }


async def _probed(
    url: str, calls: Iterator[str], work: Callable[[], None], until_begun: Callable[[], None]
) -> _Round:
    """Probe in quiet; once the work has begun, until it is over. Both functions block until then."""
    probe = await open_probe(url, calls)
    await probe.latencies_ms(10)
    quiet = [await _paused(probe) for _ in range(_PROBES)]
    working = asyncio.create_task(asyncio.to_thread(work))
    await asyncio.to_thread(until_begun)
    await asyncio.sleep(_WARM_UP_SECONDS)
    busy = []
    while not working.done():
        busy.append(await _paused(probe))
    await working
    probe.close()
    return _Round(quiet, busy[:-1])  # the work may have ended before the last


async def _paused(probe: Probe) -> float:
    await asyncio.sleep(_PROBE_PAUSE_SECONDS)
    return await probe.latency_ms()


def _beside_flood(body: bytes, plan: Plan) -> _Round:
    with (
        plan.folder() as folder,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool,
    ):
        calls = iter(fill(folder, Population(1_000, calls_per_session=1)).pending)
        with started_server(folder, WALLET) as server:
            keep_on_first_core(server.pid)
            pool.submit(os.getpid).result()  # so that the process is there
            server.wait_until_idle()
            with on_core(-1):
                flood = partial(pool.submit, _flood, server, body)
                return run(_probed(server.url, calls, lambda: flood().result(), lambda: None))


def _flood(server: Running, body: bytes) -> None:
    """Runs in a process of its own, which gives way to the probe on their core."""
    os.nice(10)
    Side(server, Requests(server.url, "POST", ["/rpc"], [body]), _FLOOD_SECONDS).measure()


def _beside_pushes(pace: _Pace, receiver: Receiver, plan: Plan) -> _Round:
    with plan.folder() as folder:
        calls = iter(fill(folder, Population(1_000, calls_per_session=1)).pending)
        due_at = time.time() + _LEAD_SECONDS
        queued = notices(pace.messages, webpush_urls(receiver.url), f"webpush {receiver.url}")
        fill_outbox(folder, queued, round(due_at * 1e3))
        environment = {
            "BRIDGE_VAPID_PRIVATE_KEY": new_vapid_keys(os.urandom).private_key,
            "BRIDGE_VAPID_SUBJECT": "mailto:operator@example.org",
            "BRIDGE_ALLOW_PRIVATE_WEBHOOKS": "true",
        }
        with started_server(folder, environment) as server:
            server.wait_until_idle()

            def work() -> None:
                receiver.wait_for(pace.messages)
                wait_until_empty(folder)

            def until_begun() -> None:
                if time.time() > due_at:
                    raise MeasurementError("the server took too long to start")
                receiver.wait_for(1)

            return run(_probed(server.url, calls, work, until_begun))
