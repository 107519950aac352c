"""Messages of generation 2.x: what one costs beside a bare echo, how long it takes, what an idle socket and a
token check cost.

A message takes two frames in, the publication and its receiver's acknowledgement, and two out: the message,
and the answer, which waits for the disk. A bare echo takes a frame in and writes it out. Both carry 1 KiB.
"""

import asyncio
import secrets
import time
from statistics import median

from cores import keep_on_first_core, on_last_core_meanwhile
from irn_clients import IrnClient, IrnListening, IrnTimed, token
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Result, Target, percentile, spread
from seed import PAYLOAD_BYTES
from socket_clients import SocketClient, message_frame, open_sockets
from sockets import ECHO_OPTIONS, SETTLING_SECONDS, SHAPES, Measured, count_messages, echo
from waiters import close_clients, run

from bridge_server.kernel.clock import SystemClock
from bridge_server.pubsub.irn.tokens import Tokens

_IDLE = 10_000
_WARM_UP = 200
_PROBES = 200
_TOKENS = 200
_PATIENCE_SECONDS = 5.0
_PAYLOAD = "5a" * (PAYLOAD_BYTES // 2)


def measure_irn(plan: Plan) -> list[Result]:
    """Messages a second beside a bare echo; the time of one message, and of its answer; a token check."""
    return [
        *(_measure_shape(plan, pairs, window) for pairs, window in SHAPES),
        _measure_latency(plan),
        _measure_tokens(),
    ]


def measure_idle_irn(plan: Plan) -> list[Result]:
    """Memory of each of 10,000 sockets with a client and a topic of their own."""
    with plan.folder() as folder, started_server(folder) as server:
        kib = run(_idle(server))
    return [Result(f"a socket among {_IDLE:,}", {"kib": kib}, Target("kib", 40))]


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
    }
    name = f"{pairs} to {pairs}, {window} on their way"
    return Result(name, {**figures, **spread(rates)}, Target("ratio", 0.6, at_least=True))


async def _deliver(server: Running, pairs: int, window: int) -> Measured:
    publishers = [IrnClient(server.url) for _ in range(pairs)]
    clients = [
        IrnListening(server.url, secrets.token_hex(32), publisher, _PAYLOAD, window)
        for publisher in publishers
    ]
    await open_sockets(server.url, [*clients, *publishers])
    for client in clients:
        client.subscribe(client.topic)
        await client.answered.wait()
    await asyncio.sleep(SETTLING_SECONDS)
    return await count_messages(server, clients, [*clients, *publishers])


def _measure_latency(plan: Plan) -> Result:
    with (
        plan.folder() as bare_folder,
        plan.folder() as folder,
        started_ceiling(bare_folder, *ECHO_OPTIONS) as ceiling,
        started_server(folder) as server,
    ):
        echo_ms = run(_echo_latencies(ceiling))
        message_ms, answer_ms = run(_message_latencies(server))
    figures: dict[str, float | None] = {
        "echo_ms": median(echo_ms),
        "message_ms": median(message_ms),
        "message_p99_ms": percentile(message_ms, 99),
        "answer_ms": median(answer_ms),
        "ratio": median(message_ms) / median(echo_ms),
    }
    return Result("from publication to receiver, one by one", figures, Target("ratio", 2))


class _EchoTimed(SocketClient):
    """Remembers when its frame came back."""

    arrived: "asyncio.Future[float]"

    def received(self) -> None:
        self.arrived.set_result(time.perf_counter())


async def _echo_latencies(ceiling: Running) -> list[float]:
    client = _EchoTimed(ceiling.url)
    await open_sockets(ceiling.url, [client])
    frame, found = message_frame("0" * 36, "pub", _PAYLOAD), []
    for _ in range(_PROBES):
        client.arrived = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        client.transport.write(frame)
        found.append((await asyncio.wait_for(client.arrived, _PATIENCE_SECONDS) - started) * 1e3)
    close_clients([client])
    return found


async def _message_latencies(server: Running) -> tuple[list[float], list[float]]:
    """Milliseconds from publishing to receiving, and to the answer."""
    publisher = IrnClient(server.url)
    receiver = IrnTimed(server.url, "0" * 64, publisher, _PAYLOAD, 1)
    await open_sockets(server.url, [publisher, receiver])
    receiver.subscribe(receiver.topic)
    await receiver.answered.wait()
    await asyncio.sleep(SETTLING_SECONDS)
    arrived, answered = [], []
    for _ in range(_PROBES):
        receiver.arrived = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        receiver.publish()
        arrived.append((await asyncio.wait_for(receiver.arrived, _PATIENCE_SECONDS) - started) * 1e3)
    await asyncio.sleep(SETTLING_SECONDS)
    for _ in range(_PROBES):
        receiver.arrived = asyncio.get_running_loop().create_future()
        publisher.answered.clear()
        started = time.perf_counter()
        receiver.publish()
        await asyncio.wait_for(publisher.answered.wait(), _PATIENCE_SECONDS)
        answered.append((time.perf_counter() - started) * 1e3)
    close_clients([publisher, receiver])
    return arrived, answered


def _measure_tokens() -> Result:
    tokens, made = Tokens(SystemClock()), [token() for _ in range(_TOKENS)]
    started = time.process_time_ns()
    for each in made:
        tokens.client_of(each, None)
    first_ms = (time.process_time_ns() - started) / _TOKENS / 1e6
    started = time.process_time_ns()
    for each in made:
        tokens.client_of(each, None)
    again_ms = (time.process_time_ns() - started) / _TOKENS / 1e6
    return Result("a token check", {"ms": first_ms, "again_ms": again_ms}, Target("ms", 1))


async def _idle(server: Running) -> float:
    close_clients(await _subscribed(server, _WARM_UP))
    await asyncio.to_thread(server.wait_until_idle)
    before = server.resident_bytes()
    crowd = await _subscribed(server, _IDLE)
    await asyncio.sleep(2)  # by then each was looked up for what waits for it
    await asyncio.to_thread(server.wait_until_idle)
    kib = (server.resident_bytes() - before) / _IDLE / 1024
    lost = sum(client.transport.is_closing() for client in crowd)
    close_clients(crowd)
    if lost:
        raise MeasurementError(f"{lost} idle sockets were closed")
    return kib


async def _subscribed(server: Running, number: int) -> list[IrnClient]:
    clients = [IrnClient(server.url) for _ in range(number)]
    await open_sockets(server.url, clients)
    for topic, client in enumerate(clients):
        client.subscribe(f"{topic:064}")
        await client.answered.wait()
    return clients
