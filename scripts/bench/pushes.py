"""Queued pushes, by a bare aiohttp client that posts the same bodies to the same local push service.

As many requests at once on both sides. The pushes are in the database before the server starts, and become
due together once it has come to rest, so that neither its start nor theirs is counted. A rate is that of the
receiver, from the first push to the last; a CPU time is all of the process until the outbox is empty and its
log checkpointed.
"""

import asyncio
import gc
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

import aiohttp
import orjson
from clients import fetch, run
from load import in_turns
from machine import keep_on_first_core, on_core
from plan import Plan
from processes import MeasurementError, started_ceiling, started_server
from report import Figures, Row, row
from seed_outbox import (
    FCM_PROJECT,
    fcm_urls,
    fill_outbox,
    notices,
    wait_until_empty,
    webpush_urls,
    write_service_account,
)

from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.keys import new_vapid_keys
from bridge_server.push.notices import read_notice
from bridge_server.push.providers.fcm_message import message
from bridge_server.push.providers.webpush import WebPushProvider, WebPushSettings
from bridge_server.push.webpush.payload import write_payload
from bridge_server.version import USER_AGENT

_PUSHES = 10_000
_AT_ONCE = 64  # as many as the server sends to one service
_LEAD_SECONDS = 6.0
_SETTLE_SECONDS = 1.3
_STALLED_SECONDS = 20.0
_SEALED = 500


class Receiver:
    """The push service, from outside."""

    def __init__(self, url: str) -> None:
        self.url = url

    def received(self) -> Figures:
        """How many pushes have come with how many bytes in their bodies, and how many a second."""
        seen: dict[str, float] = orjson.loads(fetch(self.url, "GET", "/received").body)
        first_at, last_at = seen.pop("first_at"), seen.pop("last_at")
        return {**seen, "rate": (seen["count"] - 1) / (last_at - first_at) if last_at > first_at else 0.0}

    def wait_for(self, count: int) -> None:
        """Return once so many have come. Raises MeasurementError when nothing comes any more."""
        before, since = -1.0, time.monotonic()
        while (come := self.received()["count"]) < count:
            if come != before:
                before, since = come, time.monotonic()
            elif time.monotonic() - since > _STALLED_SECONDS:
                raise MeasurementError(f"of {count:,} pushes only {before:,} came")
            time.sleep(0.1)


@contextmanager
def started_receiver(plan: Plan, answer_after_ms: float = 0.0) -> Iterator[Receiver]:
    """Run it on the core of the load; end it on leaving."""
    with plan.folder() as folder, ExitStack() as stack:
        with on_core(-1):
            process = stack.enter_context(started_ceiling(folder, "receive", answer_after_ms=answer_after_ms))
        yield Receiver(process.url)


def measure_pushes(plan: Plan) -> Iterator[Row]:
    """Alternate the server and the bare client, each with a fresh receiver."""
    figures = in_turns(plan.rounds, "rate", server=partial(_served, plan), client=partial(_bare, plan))
    if figures["server_body_bytes"] != figures["client_body_bytes"]:
        raise MeasurementError(f"not as much was sent by both: {figures}")
    yield row("pushes-fcm", figures)


def _bare(plan: Plan) -> Figures:
    with started_receiver(plan) as receiver:
        url, now_ms = f"{receiver.url}/v1/projects/{FCM_PROJECT}/messages:send", time.time_ns() // 1_000_000
        bodies = [
            orjson.dumps(message(each.url.partition(":")[2], read_notice(each), now_ms)) for each in _queued()
        ]
        with on_core(0):
            started = time.process_time_ns()
            run(_post_all(url, bodies, {"Authorization": "Bearer x", "Content-Type": "application/json"}))
            cpu_us = (time.process_time_ns() - started) / 1e3 / len(bodies)
        return {"us": cpu_us, **receiver.received()}


def _queued() -> list[OutgoingMessage]:
    return notices(_PUSHES, fcm_urls(_PUSHES), "fcm")


async def _post_all(url: str, bodies: Sequence[bytes], headers: dict[str, str]) -> None:
    gc.enable()  # as in the server
    left = iter(bodies)

    async def post_in_turn(session: aiohttp.ClientSession) -> None:
        for body in left:
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
                response.raise_for_status()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(post_in_turn(session) for _ in range(_AT_ONCE)))


def _served(plan: Plan) -> Figures:
    with started_receiver(plan) as receiver, plan.folder() as folder:
        account, due_at = folder / "bench-account.json", time.time() + _LEAD_SECONDS
        write_service_account(account, f"{receiver.url}/token")
        fill_outbox(folder, _queued(), round(due_at * 1e3))
        environment = {"BRIDGE_FCM_CREDENTIALS": str(account), "BRIDGE_FCM_ENDPOINT": receiver.url}
        with started_server(folder, environment) as server:
            keep_on_first_core(server.pid)
            server.wait_until_idle()
            server.forget_peak()
            before = server.resident_bytes()
            if receiver.received()["count"] or time.time() > due_at:
                raise MeasurementError("the server took too long to start")
            time.sleep(max(0.0, due_at - 0.2 - time.time()))
            cpu = server.cpu_ns()
            receiver.wait_for(_PUSHES)
            wait_until_empty(folder)
            time.sleep(_SETTLE_SECONDS)
            cpu_us = (server.cpu_ns() - cpu) / 1e3 / _PUSHES
            grown_mib = (server.peak_resident_bytes() - before) / 2**20
            return {"us": cpu_us, "grown_mib": grown_mib, **receiver.received()}


def measure_sealing(plan: Plan) -> Iterator[Row]:
    """Web Push messages a second, by the CPU time that the server's thread for them needs for one.

    It reads the subscription, makes a key pair, encrypts, and has the VAPID token ready.
    """
    key = new_vapid_keys(os.urandom).private_key
    settings = WebPushSettings(
        key, "mailto:operator@example.org", 10, allow_private=True, user_agent=USER_AGENT
    )
    provider = WebPushProvider(settings, SystemClock())
    queued = itertools.cycle(notices(_SEALED, webpush_urls("http://127.0.0.1:1"), None))

    def cost_us() -> float:
        started = time.thread_time_ns()
        for each in itertools.islice(queued, _SEALED):
            payload = write_payload(read_notice(each))
            assert payload is not None
            provider._seal(each.url.partition(":")[2], payload, time.time_ns() // 1_000_000)
        return (time.thread_time_ns() - started) / 1e3 / _SEALED

    cost_us()
    costs = [cost_us() for _ in range(plan.rounds)]
    figures = {"sealing_us": median(costs), "per_second": 1e6 / median(costs)}
    yield row("webpush-encryption", figures)
