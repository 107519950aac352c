"""Clients that do not read: what is unread is bounded in bytes and in time, however it is written."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import TypeAlias

from aiohttp import web

from bridge_server.web.answers import (
    MOST_BUFFERED_BYTES,
    EventStream,
    StreamedAnswer,
    WholeAnswer,
    json_answer,
    piece,
)
from bridge_server.web.open_connections import Backlog, Unread, UnreadLimits
from bridge_server.web.sockets import Socket, text_frame
from tests.support.clock import PassTime
from tests.support.loads import ANOTHER, SOMEBODY, UPGRADE, client, everything_from, get, guarded
from tests.support.rows import each_row

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

KIB = 1024
MIB = 1024 * 1024
BODIES = {f"/{number}": bytes([65 + number]) * MIB for number in range(8)} | {"/": b"x" * 60 * KIB}
LAST = get("/0", "Connection: close")


async def whole(request: web.Request) -> web.StreamResponse:
    return json_answer(BODIES[request.path])


async def enveloped(request: web.Request) -> web.StreamResponse:
    answer = WholeAnswer(body=BODIES[request.path])
    answer.put_into(b"<", b">")
    return answer


async def listing(_: web.Request) -> web.StreamResponse:
    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(64):
            yield b"x" * 16 * KIB

    return StreamedAnswer(pieces())


class Flood:
    """A source that pushes until the client is cut off."""

    def __init__(self) -> None:
        self.pushed_bytes = 0
        self.is_left = asyncio.Event()

    async def answer(self, _: web.Request) -> web.StreamResponse:
        return EventStream(self)

    async def flow(self, outlet: EventStream) -> None:
        events = piece(b":" + b"x" * 65_536 + b"\n\n")
        while True:
            outlet.push(events)
            self.pushed_bytes += len(events.plain)
            await asyncio.sleep(0)

    def leave(self) -> None:
        self.is_left.set()


class Events(Flood):
    """A source of one event that is longer than a client takes unread, and shorter than ends the stream."""

    async def flow(self, outlet: EventStream) -> None:
        for _ in range(3):
            outlet.push(piece(b":" + b"x" * 100 * KIB + b"\n\n"))
        await asyncio.Event().wait()


class Talker:
    """A party that says a lot."""

    def join(self, outlet: Socket) -> None:
        for _ in range(8):
            outlet.push(text_frame(b"x" * 64 * KIB))

    def hear(self, text: bytes) -> None: ...
    async def settle(self) -> None: ...
    def recognise(self, pong: bytes) -> None: ...
    def leave(self) -> None: ...


async def talk(party: type[Talker], request: web.Request) -> web.StreamResponse:
    response = Socket(party(), KIB).accept(request)
    await response.prepare(request)
    return response


KINDS: dict[str, tuple[Handler, bytes]] = {
    "a whole answer": (whole, get("/0")),
    "a whole answer in an envelope": (enveloped, get("/0")),
    "a whole answer to HTTP/1.0": (whole, get("/0", version="1.0")),
    "a whole answer, the last": (whole, LAST),
    "many short answers": (whole, get() * 20),
    "a listing": (listing, get()),
    "events": (Events().answer, get()),
    "a WebSocket": (partial(talk, Talker), get("/", *UPGRADE)),
}


@each_row(("handler", "request_"), KINDS.values(), ids=KINDS.keys())
async def test_a_client_that_takes_nothing_is_cut_off(handler: Handler, request_: bytes) -> None:
    async with guarded(handler, patience_seconds=0.3) as server:
        with client(server.port, SOMEBODY, request_):
            await server.until(lambda known: known.unread.total_bytes > 0 or bool(known.cut))
            await server.until(lambda connections: connections.open == 0)
        assert server.connections.cut == 1
        assert server.connections.unread.total_bytes == 0
        assert server.connections.unread.connections == 0


async def test_a_push_to_many_is_counted_before_the_next_one_is_written_to() -> None:
    outlets: list[Socket] = []

    class Listener(Talker):
        """A party that somebody else speaks for."""

        def join(self, outlet: Socket) -> None:
            outlets.append(outlet)

    frame, unread = text_frame(b"x" * 900 * KIB), []
    async with guarded(partial(talk, Listener), total_bytes=3 * MIB) as server:
        with ExitStack() as stack:
            for _ in range(12):
                stack.enter_context(client(server.port, SOMEBODY, get("/", *UPGRADE)))
            await server.until(lambda _: len(outlets) == 12)

            for outlet in outlets:
                outlet.push(frame)
                unread.append(server.connections.unread.total_bytes)

            assert max(unread) < 3 * MIB + len(frame)
            assert sum(each.is_open for each in outlets) in (1, 2, 3)


PATIENT: dict[str, tuple[Handler, bytes, int]] = {
    "a whole answer": (whole, get("/0") + LAST, 2),
    "a whole answer in an envelope": (enveloped, get("/0") + LAST, 2),
    "a whole answer to HTTP/1.0": (whole, get("/0", version="1.0"), 1),
    "many short answers": (whole, get() * 20 + LAST, 21),
}


@each_row(("handler", "request_", "answers"), PATIENT.values(), ids=PATIENT.keys())
async def test_a_client_that_reads_late_has_all(handler: Handler, request_: bytes, answers: int) -> None:
    async with guarded(handler) as server:
        with client(server.port, SOMEBODY, request_) as reader:
            await server.until(lambda connections: connections.unread.connections == 1)
            said = await everything_from(reader)
        assert server.connections.unread.total_bytes == 0
    parts = said.split(b"HTTP/1.")[1:]
    lengths = [int(part.split(b"Content-Length: ")[1].split(b"\r\n")[0]) for part in parts]
    assert [len(part.partition(b"\r\n\r\n")[2]) for part in parts] == lengths
    assert len(lengths) == answers


async def test_one_body_for_many_clients_is_in_memory_once() -> None:
    async with guarded(whole, address_bytes=3 * MIB) as server:
        with ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(client(server.port, SOMEBODY, get("/0")))
            await server.until(lambda connections: connections.unread.connections == 20)
            assert MIB < server.connections.unread.total_bytes < MIB + 20 * 65 * KIB
            assert server.connections.cut == 0


async def test_an_address_that_holds_too_much_loses_its_oldest_and_no_other_does() -> None:
    async with guarded(whole, address_bytes=3 * MIB) as server:
        with ExitStack() as stack:
            known = [stack.enter_context(client(server.port, ANOTHER, LAST))]
            await server.until(lambda connections: connections.unread.total_bytes > MIB)
            for number in range(6):
                said = get(f"/{number}", "Connection: close")
                known.append(stack.enter_context(client(server.port, SOMEBODY, said)))
                await server.until_known(len(known))
                await server.until(lambda connections: connections.unread.total_bytes <= 4 * MIB)
            answers = [await everything_from(known[place]) for place in (0, 1, 6)]
    assert [len(answer) > MIB for answer in answers] == [True, False, True]


async def test_when_all_hold_too_much_the_oldest_go_and_a_newcomer_is_served() -> None:
    addresses = [f"127.0.1.{number}" for number in range(1, 7)]
    async with guarded(whole, total_bytes=3 * MIB) as server:
        with ExitStack() as stack:
            for number, address in enumerate(addresses):
                stack.enter_context(client(server.port, address, get(f"/{number}")))
                await server.until_known(number + 1)
                await server.until(lambda connections: connections.unread.total_bytes <= 3 * MIB)
            with client(server.port, ANOTHER, get("/7", "Connection: close"), small=False) as newcomer:
                answer = await everything_from(newcomer)

            left = [address for address in addresses if server.connections.open_from(address)]
            assert left == addresses[-len(left) :]
            assert len(left) in (1, 2)
    assert answer.endswith(BODIES["/7"])


async def test_exempt_clients_are_spared_the_bound_of_their_address_alone() -> None:
    async with guarded(whole, address_bytes=MIB, total_bytes=5 * MIB, exempt=f"{SOMEBODY}/32") as server:
        with ExitStack() as stack:
            for number in range(4):
                stack.enter_context(client(server.port, SOMEBODY, get(f"/{number}")))
            await server.until(lambda connections: connections.unread.connections == 4)
            assert server.connections.cut == 0
            stack.enter_context(client(server.port, SOMEBODY, get("/4")))
            await server.until(lambda connections: connections.cut == 1)


async def test_answers_through_a_proxy_count_for_its_client() -> None:
    async with guarded(whole, address_bytes=2 * MIB, trusted=SOMEBODY) as server:
        with ExitStack() as stack:
            for number in range(3):
                forwarded = f"X-Forwarded-For: 192.0.2.{number}"
                stack.enter_context(client(server.port, SOMEBODY, get(f"/{number}", forwarded)))
            await server.until(lambda connections: connections.unread.connections == 3)
            assert server.connections.cut == 0
            stack.enter_context(client(server.port, SOMEBODY, get("/3", "X-Forwarded-For: 192.0.2.1")))
            await server.until(lambda connections: connections.cut == 1)


class Taker(asyncio.WriteTransport):
    """The writing side of a connection whose client takes a little between two looks, or nothing."""

    def __init__(self, size_bytes: int, takes_bytes: int = 0) -> None:
        self.size_bytes = size_bytes
        self.takes_bytes = takes_bytes
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        self.size_bytes -= self.takes_bytes
        return self.size_bytes

    def abort(self) -> None:
        self.is_aborted = True


def waiting(*takers: Taker) -> tuple[Unread, list[Backlog]]:
    """The takers as connections of one address with unread bytes."""
    unread = Unread(UnreadLimits(MIB, MIB, 30.0), lambda _: None)
    backlogs = [Backlog(taker, "somebody") for taker in takers]
    for backlog in backlogs:
        unread.wait(backlog)
    return unread, backlogs


async def test_a_client_that_takes_a_little_is_never_cut_off(pass_time: PassTime) -> None:
    reader, idler = Taker(1_000, takes_bytes=1), Taker(1_000)
    unread, _ = waiting(reader, idler)
    for _ in range(100):
        await pass_time(1.0)
    assert (reader.is_aborted, idler.is_aborted) == (False, True)
    assert unread.total_bytes == reader.size_bytes


async def test_pushed_bytes_count_and_show_which_clients_read(pass_time: PassTime) -> None:
    reader, idler = Taker(1_000), Taker(1_000)
    unread, backlogs = waiting(reader, idler)
    for _ in range(40):
        await pass_time(1.0)
        reader.size_bytes += 99
        idler.size_bytes += 100
        for backlog, taker in zip(backlogs, (reader, idler), strict=True):
            if not taker.is_aborted:
                unread.grow(backlog, 100)
    assert (reader.is_aborted, idler.is_aborted) == (False, True)


async def test_unread_events_of_a_client_are_bounded() -> None:
    source = Flood()
    async with guarded(source.answer) as server:
        with client(server.port, SOMEBODY, get()) as connection:
            await asyncio.wait_for(source.is_left.wait(), 60)
            received = await everything_from(connection)
    assert source.pushed_bytes - len(received) < MOST_BUFFERED_BYTES + 1_000_000


async def test_a_client_that_left_before_it_began_is_forgotten() -> None:
    source = Flood()

    async def leave_first(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return await source.answer(request)

    async with guarded(leave_first) as server:
        with client(server.port, SOMEBODY, get()):
            await asyncio.wait_for(source.is_left.wait(), 60)
    assert source.pushed_bytes == 0
