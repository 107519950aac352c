"""Messages over WebSockets: what one costs beside a bare echo, what an idle socket costs, and whether
many of those delay a message.

A bare echo takes a frame in and writes it out. A message takes two in, the publication and its receiver's
acknowledgement, and one out, to another socket. Both carry 1 KiB.
"""

import asyncio
import gc
import time
from collections.abc import Sequence
from statistics import median
from typing import Protocol

from cores import keep_on_first_core, on_last_core_meanwhile
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Result, Target, percentile, spread
from seed import PAYLOAD_BYTES
from socket_clients import (
    Echoed,
    Listening,
    Publisher,
    SocketClient,
    message_frame,
    open_sockets,
)
from waiters import close_clients, run

SHAPES = ((1, 32), (32, 1))  # pairs, or connections of the echo, and messages on their way in each
SETTLING_SECONDS = 0.2
_COUNTED_SECONDS = 0.5
_IDLE = 10_000
_WARM_UP = 200
_PROBES = 200
_PATIENCE_SECONDS = 5.0
_PAYLOAD = "5a" * (PAYLOAD_BYTES // 2)
ECHO_OPTIONS = ("--route", "/", "--echo")


def measure_messages(plan: Plan) -> list[Result]:
    """Messages a second, and the CPU time of each, in turns."""
    return [_measure_shape(plan, pairs, window) for pairs, window in SHAPES]


def _measure_shape(plan: Plan, pairs: int, window: int) -> Result:
    bare, served = [], []
    with (
        plan.folder() as bare_folder,
        plan.folder() as folder,
        started_ceiling(bare_folder, *ECHO_OPTIONS) as ceiling,
        started_server(folder) as server,
    ):
        keep_on_first_core(ceiling.pid)
        keep_on_first_core(server.pid)
        for _ in range(2 * plan.rounds):
            with on_last_core_meanwhile():
                bare.append(run(echo(ceiling, pairs, window)))
                served.append(run(_deliver(server, pairs, window)))
    rates = [message.per_second / each.per_second for each, message in zip(bare, served, strict=True)]
    figures = {
        "echo_per_second": median(each.per_second for each in bare),
        "messages_per_second": median(message.per_second for message in served),
        "echo_us": median(each.cpu_us for each in bare),
        "message_us": median(message.cpu_us for message in served),
        "by_cpu_time": median(each.cpu_us for each in bare) / median(message.cpu_us for message in served),
    }
    name = f"{pairs} to {pairs}, {window} on their way"
    return Result(name, {**figures, **spread(rates)}, Target("ratio", 0.6, at_least=True))


def measure_idle_sockets(plan: Plan) -> list[Result]:
    """Memory of each of 10,000 sockets; the time from publishing to receiving, alone and beside them."""
    with plan.folder() as folder, started_server(folder) as server:
        kib, alone_ms, beside_ms = run(_idle(server))
    latencies = {"alone_ms": median(alone_ms), "beside_ms": median(beside_ms)}
    latencies |= {"alone_p99_ms": percentile(alone_ms, 99), "beside_p99_ms": percentile(beside_ms, 99)}
    ratio = latencies["beside_ms"] / latencies["alone_ms"]
    return [
        Result(f"a socket among {_IDLE:,}", {"kib": kib}, Target("kib", 40)),
        Result(f"a message beside {_IDLE:,} idle sockets", {**latencies, "ratio": ratio}, Target("ratio", 3)),
    ]


class Counting(Protocol):
    """A client that counts what it is sent."""

    count: int

    def begin(self) -> None:
        """Send the first messages, or have them sent."""
        ...


class Measured:
    """What came of one load."""

    def __init__(self, messages: int, seconds: float, cpu_ns: int) -> None:
        if not messages:
            raise MeasurementError("no message came")
        self.per_second = messages / seconds
        self.cpu_us = cpu_ns / messages / 1e3


async def echo(ceiling: Running, connections: int, window: int) -> Measured:
    frame = message_frame("0" * 36, "pub", _PAYLOAD)
    clients = [Echoed(ceiling.url, frame, window) for _ in range(connections)]
    await open_sockets(ceiling.url, clients)
    return await count_messages(ceiling, clients, clients)


async def _deliver(server: Running, pairs: int, window: int) -> Measured:
    publishers = [Publisher(server.url) for _ in range(pairs)]
    clients = [
        Listening(server.url, f"{number:036}", publisher, _PAYLOAD, window)
        for number, publisher in enumerate(publishers)
    ]
    await open_sockets(server.url, [*clients, *publishers])
    for client in clients:
        client.subscribe()
    await asyncio.sleep(SETTLING_SECONDS)
    return await count_messages(server, clients, [*clients, *publishers])


async def count_messages(
    process: Running, clients: Sequence[Counting], everybody: Sequence[SocketClient]
) -> Measured:
    """Let it run up, then count for a while."""
    for client in clients:
        client.begin()
    await asyncio.sleep(SETTLING_SECONDS)
    counted, started, cpu_ns = sum(client.count for client in clients), time.perf_counter(), process.cpu_ns()
    await asyncio.sleep(_COUNTED_SECONDS)
    load = Measured(
        sum(client.count for client in clients) - counted,
        time.perf_counter() - started,
        process.cpu_ns() - cpu_ns,
    )
    close_clients(everybody)
    await asyncio.to_thread(process.wait_until_idle)
    return load


async def _idle(server: Running) -> tuple[float, list[float], list[float]]:
    probe = await _Probe.opened(server)
    alone_ms = await probe.latencies()
    close_clients(await _subscribed(server, _WARM_UP))
    await asyncio.to_thread(server.wait_until_idle)
    before = server.resident_bytes()
    crowd = await _subscribed(server, _IDLE)
    await asyncio.to_thread(server.wait_until_idle)
    kib = (server.resident_bytes() - before) / _IDLE / 1024
    gc.freeze()
    beside_ms = await probe.latencies()
    lost = sum(client.transport.is_closing() for client in crowd)
    close_clients([*crowd, *probe.clients])
    if lost:
        raise MeasurementError(f"{lost} idle sockets were closed")
    return kib, alone_ms, beside_ms


async def _subscribed(server: Running, number: int) -> list[SocketClient]:
    clients = [SocketClient(server.url) for _ in range(number)]
    await open_sockets(server.url, clients)
    for topic, client in enumerate(clients):
        client.transport.write(message_frame(f"idle-{topic:031}", "sub"))
    return clients


class _Probe:
    """One publisher and one subscriber, which say how long a message takes."""

    def __init__(self, publisher: Publisher, subscriber: "_Timed") -> None:
        self.clients = [publisher, subscriber]
        self._publisher = publisher
        self._subscriber = subscriber

    @classmethod
    async def opened(cls, server: Running) -> "_Probe":
        publisher, subscriber = Publisher(server.url), _Timed(server.url)
        await open_sockets(server.url, [publisher, subscriber])
        subscriber.transport.write(message_frame("probe", "sub"))
        await asyncio.sleep(SETTLING_SECONDS)
        return cls(publisher, subscriber)

    async def latencies(self) -> list[float]:
        """Milliseconds from publishing to receiving, one message after the other."""
        frame, found = message_frame("probe", "pub", _PAYLOAD), []
        for _ in range(_PROBES):
            self._subscriber.came = asyncio.get_running_loop().create_future()
            started = time.perf_counter()
            self._publisher.transport.write(frame)
            came_at = await asyncio.wait_for(self._subscriber.came, _PATIENCE_SECONDS)
            found.append((came_at - started) * 1e3)
        return found


class _Timed(SocketClient):
    """Remembers when its message came, and acknowledges it."""

    came: "asyncio.Future[float]"

    def received(self) -> None:
        self.came.set_result(time.perf_counter())
        self.transport.write(message_frame("probe", "ack"))
