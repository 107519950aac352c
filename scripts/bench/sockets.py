"""Messages over WebSockets: what one costs beside a bare echo, what an idle socket costs, and whether
many of those delay a message.

A bare echo takes a frame in and writes it out. A message takes two in, the publication and its receiver's
acknowledgement, and one out, to another socket. Both carry 1 KiB.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from secrets import token_hex
from statistics import median
from typing import TypeVar

from bare_socket import BareSocket, client_frame, open_sockets
from clients import close_clients, run
from load import in_turns
from machine import keep_on_first_core, on_core
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Figures, Row, percentile, row
from seed import PAYLOAD_BYTES

_SHAPES = ((1, 32), (32, 1))  # pairs, or connections of the echo, and messages on their way in each
SETTLING_SECONDS = 0.2
COUNTED_SECONDS = 0.5
IDLE = 10_000
_WARM_UP = 200
PROBES = 200
_PATIENCE_SECONDS = 5.0
PAYLOAD = "5a" * (PAYLOAD_BYTES // 2)


def _message(topic: str, kind: str, payload: str = "") -> bytes:
    """One message of generation 1.x."""
    content = {"topic": topic, "type": kind, "payload": payload, "silent": True}
    return client_frame(json.dumps(content, separators=(",", ":")).encode())


AnySocket = TypeVar("AnySocket", bound=BareSocket)


def measure_messages(plan: Plan) -> Iterator[Row]:
    """The CPU time of each message, and how many there are in a second."""
    return beside_echo(plan, partial(_counted, is_echo=False))


def beside_echo(plan: Plan, counted: Callable[[Running, int, int], Figures]) -> Iterator[Row]:
    """What `counted` says of the server, in turns with a bare echo."""
    for pairs, window in _SHAPES:
        with started_beside_echo(plan) as (ceiling, server):
            keep_on_first_core(ceiling.pid)
            keep_on_first_core(server.pid)
            figures = in_turns(
                2 * plan.rounds,
                echo=partial(_counted, ceiling, pairs, window, is_echo=True),
                message=partial(counted, server, pairs, window),
            )
        yield row(f"{pairs} to {pairs}, {window} on their way", figures)


@contextmanager
def started_beside_echo(plan: Plan) -> Iterator[tuple[Running, Running]]:
    """A bare echo and a server."""
    with (
        plan.folder() as bare_folder,
        plan.folder() as folder,
        started_ceiling(bare_folder, "echo", route="/") as ceiling,
        started_server(folder) as server,
    ):
        yield ceiling, server


def _counted(process: Running, pairs: int, window: int, is_echo: bool) -> Figures:
    """CPU time and rate of messages of generation 1.x, or of frames that are sent back."""
    with on_core(-1):
        return run(_count(process, pairs, window, is_echo))


async def _count(process: Running, pairs: int, window: int, is_echo: bool) -> Figures:
    """Let it run up, then count for a while."""
    topics = [token_hex(18) for _ in range(pairs)]  # messages that the round before left would come, too
    receivers = [
        BareSocket(process.url, b"" if is_echo else _message(topic, "ack"), _message(topic, "pub", PAYLOAD))
        for topic in topics
    ]
    publishers = [] if is_echo else [BareSocket(process.url) for _ in topics]
    await open_sockets(process.url, [*receivers, *publishers])
    for topic, receiver, publisher in zip(topics, receivers, publishers, strict=False):
        receiver.publisher = publisher
        receiver.transport.write(_message(topic, "sub"))
    await asyncio.sleep(SETTLING_SECONDS)
    for receiver in receivers:
        receiver.publisher.transport.write(receiver.next_frame * window)
    await asyncio.sleep(SETTLING_SECONDS)
    return await count_received(process, receivers, publishers)


async def count_received(
    process: Running, receivers: Sequence[BareSocket], publishers: Sequence[BareSocket]
) -> Figures:
    """Count for a while; then close all sockets.

    On a busy machine a flush of the disk may take longer: few messages wait for it, and all senders then wait
    for those. So the count goes on until something has come.
    """
    sockets = [*receivers, *publishers]
    before, started, cpu_ns = sum(each.count for each in receivers), time.perf_counter(), process.cpu_ns()
    messages = 0
    while not messages and time.perf_counter() < started + _PATIENCE_SECONDS:
        await asyncio.sleep(COUNTED_SECONDS)
        messages = sum(each.count for each in receivers) - before
    seconds, cpu_us = time.perf_counter() - started, (process.cpu_ns() - cpu_ns) / 1e3
    farewells = [each.farewell for each in sockets if each.farewell]
    close_clients(sockets)
    await asyncio.to_thread(process.wait_until_idle)
    if farewells:
        raise MeasurementError(f"a socket was closed: {farewells[0]}")
    if not messages:
        raise MeasurementError("no message came")
    return {"us": cpu_us / messages, "rate": messages / seconds}


def measure_idle_sockets(plan: Plan) -> Iterator[Row]:
    """Memory of each of 10,000 idle sockets; the time from publishing to receiving, alone and beside them."""
    with plan.folder() as folder, started_server(folder) as server:
        yield row(f"beside {IDLE:,} idle sockets", run(_beside_idle(server)))


async def _beside_idle(server: Running) -> Figures:
    publisher, subscriber = BareSocket(server.url), BareSocket(server.url, _message("probe", "ack"))
    await open_sockets(server.url, [publisher, subscriber])
    probes = [_message("probe", "pub", PAYLOAD)] * PROBES
    subscriber.transport.write(_message("probe", "sub"))
    await asyncio.sleep(SETTLING_SECONDS)
    alone_ms = await latencies_ms(publisher, subscriber, probes)
    crowd, kib = await grown_kib(server, _subscribed)
    beside_ms = await latencies_ms(publisher, subscriber, probes)
    close_idle(crowd)
    close_clients([publisher, subscriber])
    figures = {"kib": kib, "alone_ms": median(alone_ms), "beside_ms": median(beside_ms)}
    figures |= {"beside_p99_ms": percentile(beside_ms, 99)}
    return {**figures, "ratio": figures["beside_ms"] / figures["alone_ms"]}


async def grown_kib(
    server: Running, subscribed: Callable[[Running, int], Awaitable[list[AnySocket]]]
) -> tuple[list[AnySocket], float]:
    """Idle sockets, and the server's memory for each of them."""
    close_clients(await subscribed(server, _WARM_UP))
    await asyncio.to_thread(server.wait_until_idle)
    before = server.resident_bytes()
    crowd = await subscribed(server, IDLE)
    await asyncio.to_thread(server.wait_until_idle)
    return crowd, (server.resident_bytes() - before) / IDLE / 1024


def close_idle(crowd: Sequence[BareSocket]) -> None:
    """Close sockets that the server has left open until now."""
    if lost := sum(each.transport.is_closing() for each in crowd):
        raise MeasurementError(f"{lost} idle sockets were closed")
    close_clients(crowd)


async def _subscribed(server: Running, number: int) -> list[BareSocket]:
    sockets = [BareSocket(server.url) for _ in range(number)]
    await open_sockets(server.url, sockets)
    for topic, each in enumerate(sockets):
        each.transport.write(_message(f"idle-{topic:031}", "sub"))
    return sockets


async def latencies_ms(publisher: BareSocket, subscriber: BareSocket, frames: Iterable[bytes]) -> list[float]:
    """From publishing to receiving, one message after the other."""
    found = []
    for frame in frames:
        subscriber.came = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        publisher.transport.write(frame)
        found.append((await asyncio.wait_for(subscriber.came, _PATIENCE_SECONDS) - started) * 1e3)
    return found
