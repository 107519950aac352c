"""Messages of generation 2.x: what one costs beside a bare echo, how long it takes, what an idle socket and a
token check cost.

A message takes two frames in, the publication and its receiver's acknowledgement, and two out: the message,
and the answer, which waits for the disk. A bare echo takes a frame in and writes it out. Both carry 1 KiB.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from statistics import median

from bare_socket import BareSocket, BlockingSocket, client_frame, open_sockets
from clients import close_clients, run
from machine import on_core
from plan import Plan
from processes import Running, started_server
from report import Figures, Row, percentile, row
from sockets import (
    IDLE,
    PAYLOAD,
    PROBES,
    SETTLING_SECONDS,
    beside_echo,
    close_idle,
    count_received,
    grown_kib,
    latencies_ms,
    started_beside_echo,
)

from bridge_server.kernel.clock import SystemClock
from bridge_server.kit.client.v2_session import ClientId
from bridge_server.pubsub.v2_tokens import ClientTokens

_TOKENS = 200
_LOOKED_UP_SECONDS = 2.0
_MEDIUM = 126
PAIRS = 32
_numbers = count(int(time.time() * 1_000_000))


def _token() -> str:
    """The token of a new client."""
    return ClientId().token("ws://bench", int(time.time()))


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
        super().__init__(url, target=f"/?auth={_token()}")
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


class IrnPairs:
    """Pairs of sockets in lock step: each publishes its next message when all earlier ones were received,
    acknowledged and answered.
    """

    def __init__(self, url: str, stopped: Callable[[], AbstractContextManager[None]]) -> None:
        """`stopped` has the process stand still, so that it finds all that is sent meanwhile at once."""
        self._stopped = stopped
        self._topics = [secrets.token_hex(32) for _ in range(PAIRS)]
        self._receivers, self._publishers = (
            [BlockingSocket(url, f"/?auth={_token()}") for _ in self._topics] for _ in range(2)
        )
        for topic, receiver in zip(self._topics, self._receivers, strict=True):
            receiver.send(_subscription(topic))
            receiver.receive()
        time.sleep(_LOOKED_UP_SECONDS)

    def exchange(self) -> None:
        """One message of each pair."""
        with self._stopped():
            for topic, publisher in zip(self._topics, self._publishers, strict=True):
                publisher.send(_publication(topic))
        messages = [receiver.receive() for receiver in self._receivers]
        with self._stopped():
            for receiver, message in zip(self._receivers, messages, strict=True):
                number = message[6 : message.index(b",")]
                receiver.send(client_frame(b'{"id":%b,"jsonrpc":"2.0","result":true}' % number))
        for publisher in self._publishers:
            publisher.receive()

    def close(self) -> None:
        """Break all connections off."""
        for each in (*self._receivers, *self._publishers):
            each.close()


class EchoPairs:
    """Sockets whose frames are sent back, in lock step: two of a message's length count as one message."""

    def __init__(self, url: str, stopped: Callable[[], AbstractContextManager[None]]) -> None:
        self._stopped = stopped
        self._sockets = [BlockingSocket(url) for _ in range(PAIRS)]

    def exchange(self) -> None:
        """Two frames of each socket."""
        for _ in range(2):
            with self._stopped():
                for each in self._sockets:
                    each.send(_publication("0" * 64))
            for each in self._sockets:
                each.receive()

    def close(self) -> None:
        """Break all connections off."""
        for each in self._sockets:
            each.close()


def measure_irn(plan: Plan) -> Iterator[Row]:
    """CPU time and rate beside a bare echo; the time of one message, and of its answer; a token check."""
    yield from beside_echo(plan, _counted)
    yield row("one after the other", _latencies(plan))
    yield row("a token check", run(_token_check()))


def measure_idle_irn(plan: Plan) -> Iterator[Row]:
    """Memory of each of 10,000 sockets with a client and a topic of their own."""
    with plan.folder() as folder, started_server(folder) as server:
        yield row(f"beside {IDLE:,} idle sockets", run(_idle(server)))


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
    with started_beside_echo(plan) as (ceiling, server):
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
    tokens, made = ClientTokens(SystemClock()), [_token() for _ in range(_TOKENS)]
    await tokens.client_of(_token(), None)  # loads the module
    started = time.process_time_ns()
    for each in made:
        await tokens.client_of(each, None)
    return {"ms": (time.process_time_ns() - started) / _TOKENS / 1e6}


async def _idle(server: Running) -> Figures:
    crowd, kib = await grown_kib(server, _subscribed)
    close_idle(crowd)
    return {"kib": kib}


async def _subscribed(server: Running, number: int) -> list[_IrnSocket]:
    sockets = [_IrnSocket(server.url, f"{topic:064}") for topic in range(number)]
    await open_sockets(server.url, sockets)
    for each in sockets:
        await each.ask(_subscription(each.topic))
    await asyncio.sleep(_LOOKED_UP_SECONDS)  # by then each was looked up for what waits for it
    return sockets
