"""Messages of generation 2.x: what one costs beside a bare echo, how long it takes, what an idle socket and a
token check cost.

A message takes two frames in, the publication and its receiver's acknowledgement, and two out: the message,
and the answer, which waits for the disk. A bare echo takes a frame in and writes it out. Both carry 1 KiB.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from statistics import median

from clients import close_clients, run
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa
from load import in_turns
from machine import keep_on_first_core, on_core
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Figures, Row, percentile, row
from sockets import (
    PAYLOAD,
    PROBES,
    SETTLING_SECONDS,
    SHAPES,
    BareSocket,
    client_frame,
    count_received,
    counted,
    latencies_ms,
    open_sockets,
)

from bridge_server.kernel.base64url import encode
from bridge_server.kernel.clock import SystemClock
from bridge_server.pubsub.irn.tokens import ClientTokens

_IDLE = 10_000
_WARM_UP = 200
_TOKENS = 200
_LOOKED_UP_SECONDS = 2.0
_LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_MEDIUM = 126
_numbers = count(int(time.time() * 1_000_000))


def token() -> str:
    """The token of a new client."""
    key = ECC.generate(curve="Ed25519")
    number, text = int.from_bytes(b"\xed\x01" + key.public_key().export_key(format="raw")), ""
    while number:
        number, digit = divmod(number, 58)
        text = _LETTERS[digit] + text
    now = int(time.time())
    claims = {"iss": f"did:key:z{text}", "sub": "bench", "aud": "ws://bench", "iat": now, "exp": now + 86_400}
    signed = ".".join(encode(json.dumps(part).encode()) for part in ({"alg": "EdDSA", "typ": "JWT"}, claims))
    return f"{signed}.{encode(eddsa.new(key, 'rfc8032').sign(signed.encode()))}"


def _call(method: str, params: bytes) -> bytes:
    members = (next(_numbers), method.encode(), params)
    return client_frame(b'{"id":%d,"jsonrpc":"2.0","method":"%b","params":%b}' % members)


def _subscription(topic: str) -> bytes:
    return _call("irn_subscribe", b'{"topic":"%b"}' % topic.encode())


def _publication(topic: str) -> bytes:
    params = b'{"topic":"%b","message":"%b","ttl":300,"tag":1108}' % (topic.encode(), PAYLOAD.encode())
    return _call("irn_publish", params)


class _IrnSocket(BareSocket):
    """Acknowledges messages, and has the publisher publish the next one if `publishes`."""

    def __init__(self, url: str, topic: str = "", *, publishes: bool = False) -> None:
        super().__init__(url, target=f"/?auth={token()}")
        self.topic = topic
        self.publishes = publishes
        self.answered: asyncio.Future[float] | None = None

    def heard(self, data: bytes, start: int, end: int) -> None:
        start += 4 if data[start + 1] == _MEDIUM else 2
        if data.find(b'"method"', start, start + 80) < 0:
            if self.answered is not None and not self.answered.done():
                self.answered.set_result(time.perf_counter())
            return
        self.received()
        number = data[start + 6 : data.index(b",", start)]
        self.transport.write(client_frame(b'{"id":%b,"jsonrpc":"2.0","result":true}' % number))
        if self.publishes:
            self.publisher.transport.write(_publication(self.topic))

    async def ask(self, frame: bytes) -> float:
        """Milliseconds from a call to its answer."""
        self.answered = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        self.transport.write(frame)
        return (await self.answered - started) * 1e3


def measure_irn(plan: Plan) -> Iterator[Row]:
    """CPU time and rate beside a bare echo; the time of one message, and of its answer; a token check."""
    for pairs, window in SHAPES:
        with (
            plan.folder() as bare_folder,
            plan.folder() as folder,
            started_ceiling(bare_folder, "echo", route="/") as ceiling,
            started_server(folder) as server,
        ):
            keep_on_first_core(ceiling.pid)
            keep_on_first_core(server.pid)
            figures = in_turns(
                2 * plan.rounds,
                echo=partial(counted, ceiling, pairs, window, is_echo=True),
                message=partial(_counted, server, pairs, window),
            )
        yield row(f"{pairs} to {pairs}, {window} on their way", figures)
    yield row("one after the other", _latencies(plan))
    yield row("a token check", run(_token_check()))


def measure_idle_irn(plan: Plan) -> Iterator[Row]:
    """Memory of each of 10,000 sockets with a client and a topic of their own."""
    with plan.folder() as folder, started_server(folder) as server:
        yield row(f"beside {_IDLE:,} idle sockets", run(_idle(server)))


def _counted(server: Running, pairs: int, window: int) -> Figures:
    with on_core(-1):
        return run(_count(server, pairs, window))


async def _count(server: Running, pairs: int, window: int) -> Figures:
    receivers = [_IrnSocket(server.url, secrets.token_hex(32), publishes=True) for _ in range(pairs)]
    publishers = [_IrnSocket(server.url) for _ in receivers]
    await open_sockets(server.url, [*receivers, *publishers])
    for receiver, publisher in zip(receivers, publishers, strict=True):
        receiver.publisher = publisher
        await receiver.ask(_subscription(receiver.topic))
    await asyncio.sleep(SETTLING_SECONDS)
    for receiver in receivers:
        for _ in range(window):
            receiver.publisher.transport.write(_publication(receiver.topic))
    await asyncio.sleep(SETTLING_SECONDS)
    return await count_received(server, receivers, publishers)


def _latencies(plan: Plan) -> Figures:
    with (
        plan.folder() as bare_folder,
        plan.folder() as folder,
        started_ceiling(bare_folder, "echo", route="/") as ceiling,
        started_server(folder) as server,
    ):
        echo_ms = run(_echo_latencies(ceiling))
        message_ms, answer_ms = run(_message_latencies(server))
    figures = {"echo_ms": median(echo_ms), "message_ms": median(message_ms)}
    figures |= {"message_p99_ms": percentile(message_ms, 99), "answer_ms": median(answer_ms)}
    return {**figures, "ratio": figures["message_ms"] / figures["echo_ms"]}


async def _echo_latencies(ceiling: Running) -> list[float]:
    socket = BareSocket(ceiling.url)
    await open_sockets(ceiling.url, [socket])
    found = await latencies_ms(socket, socket, [_publication("0" * 64)] * PROBES)
    close_clients([socket])
    return found


async def _message_latencies(server: Running) -> tuple[list[float], list[float]]:
    topic = "0" * 64
    publisher, receiver = _IrnSocket(server.url), _IrnSocket(server.url, topic)
    await open_sockets(server.url, [publisher, receiver])
    await receiver.ask(_subscription(topic))
    await asyncio.sleep(SETTLING_SECONDS)
    arrived = await latencies_ms(publisher, receiver, (_publication(topic) for _ in range(PROBES)))
    await asyncio.sleep(SETTLING_SECONDS)
    answered = [await publisher.ask(_publication(topic)) for _ in range(PROBES)]
    close_clients([publisher, receiver])
    return arrived, answered


async def _token_check() -> Figures:
    tokens, made = ClientTokens(SystemClock()), [token() for _ in range(_TOKENS)]
    await tokens.client_of(token(), None)  # loads the module
    started = time.process_time_ns()
    for each in made:
        await tokens.client_of(each, None)
    return {"ms": (time.process_time_ns() - started) / _TOKENS / 1e6}


async def _idle(server: Running) -> Figures:
    close_clients(await _subscribed(server, _WARM_UP))
    await asyncio.to_thread(server.wait_until_idle)
    before = server.resident_bytes()
    crowd = await _subscribed(server, _IDLE)
    await asyncio.sleep(_LOOKED_UP_SECONDS)  # by then each was looked up for what waits for it
    await asyncio.to_thread(server.wait_until_idle)
    kib = (server.resident_bytes() - before) / _IDLE / 1024
    if lost := sum(each.transport.is_closing() for each in crowd):
        raise MeasurementError(f"{lost} idle sockets were closed")
    close_clients(crowd)
    return {"kib": kib}


async def _subscribed(server: Running, number: int) -> list[_IrnSocket]:
    sockets = [_IrnSocket(server.url, f"{topic:064}") for topic in range(number)]
    await open_sockets(server.url, sockets)
    for each in sockets:
        await each.ask(_subscription(each.topic))
    return sockets
