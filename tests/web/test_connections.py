"""How many connections an address may have, and how long one may say nothing.

White-box: how soon refusals are reported has no setting; no aiohttp lacks the private names.
"""

import asyncio
import socket
from contextlib import ExitStack, suppress

import orjson
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bridge_server.web import aiohttp_internals, open_connections
from bridge_server.web import connection as connection_module
from bridge_server.web.answers import text_answer
from tests.support.clock import PassTime
from tests.support.loads import ANOTHER, SOMEBODY, Guarded, client, everything_from, get, guarded
from tests.support.rows import each_row

EXEMPT, PROXY = "127.0.0.1", "127.0.0.4"


async def greet(_: web.Request) -> web.StreamResponse:
    return text_answer("hello")


class Holding:
    """Greets, but holds the answer of one path back until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/held":
            await self.let_go.wait()
        return text_answer("hello")


async def answer_to(server: Guarded, address: str) -> bytes:
    with client(server.port, address, get("/", "Connection: close")) as connection:
        return await everything_from(connection)


def open_from(stack: ExitStack, server: Guarded, address: str, count: int) -> list[socket.socket]:
    return [stack.enter_context(client(server.port, address)) for _ in range(count)]


async def test_an_address_has_its_share_of_connections_and_others_have_theirs() -> None:
    async with guarded(greet, per_address=5) as server:
        with ExitStack() as stack:
            own = open_from(stack, server, SOMEBODY, 5)
            await server.until(lambda connections: connections.open == 5)

            refused = await answer_to(server, SOMEBODY)
            assert (await answer_to(server, ANOTHER)).endswith(b"hello")

            own[0].close()
            await server.until(lambda connections: connections.open == 4)
            assert (await answer_to(server, SOMEBODY)).endswith(b"hello")

        assert server.connections.refused == 1
    head, _, body = refused.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ")
    assert b"\r\nRetry-After: " in head
    assert b"\r\nContent-Type: application/problem+json" in head
    assert orjson.loads(body)["status"] == 429


@each_row("address", [EXEMPT, PROXY])
async def test_exempt_clients_and_proxies_may_have_more(address: str) -> None:
    async with guarded(greet, per_address=2, trusted=PROXY) as server:
        with ExitStack() as stack:
            open_from(stack, server, address, 5)
            await server.until(lambda connections: connections.open == 5)
            assert (await answer_to(server, address)).endswith(b"hello")
        await server.until(lambda connections: connections.open == 0)


async def test_refusals_are_a_line_a_minute(monkeypatch: pytest.MonkeyPatch, pass_time: PassTime) -> None:
    monkeypatch.setattr(open_connections, "_SOON_SECONDS", 30)
    with capture_logs() as lines:
        async with guarded(greet, per_address=1, head_seconds=3_600) as server:
            with ExitStack() as stack:
                open_from(stack, server, SOMEBODY, 1)
                await server.until(lambda connections: connections.open == 1)
                open_from(stack, server, SOMEBODY, 20)
                await server.until(lambda connections: connections.refused >= 20)
                assert lines == []
                await pass_time(30)
                assert [line["connections"] for line in lines] == [20]

                open_from(stack, server, SOMEBODY, 20)
                await server.until(lambda connections: connections.refused >= 40)
                assert len(lines) == 1
                await pass_time(60)
                assert [line["connections"] for line in lines] == [20, 20]

    assert {line["event"] for line in lines} == {"connections_refused"}
    assert {tuple(line["addresses"]) for line in lines} == {(SOMEBODY,)}


async def test_a_connection_that_asks_nothing_in_its_time_is_closed() -> None:
    def drip(connection: socket.socket) -> None:
        """Send a head by the byte until the server hangs up."""
        connection.settimeout(0.01)
        with suppress(ConnectionError):
            for byte in get("/", f"X: {'x' * 2_000}"):
                connection.sendall(bytes([byte]))
                with suppress(TimeoutError):
                    if not connection.recv(1):
                        return
            raise AssertionError("nobody hung up")

    async with guarded(greet, head_seconds=0.3) as server:
        for said in (b"", b"GET / HTTP/1.1\r\nHost: bridge.example\r\n"):
            with client(server.port, SOMEBODY, said) as connection:
                assert await everything_from(connection) == b""
        with client(server.port) as connection:
            await asyncio.to_thread(drip, connection)
        assert server.connections.silent == 3


async def test_a_connection_that_has_asked_once_may_be_silent_for_longer_and_one_that_waits_is_not() -> None:
    holding = Holding()
    async with guarded(holding.answer) as server:
        with ExitStack() as stack:
            idle, waiting = await asked_once(stack, server, SOMEBODY), await held(stack, server)
            [latest] = open_from(stack, server, SOMEBODY, 1)
            await server.until_known(3)
            server.limits.head_seconds = 0.01
            assert await everything_from(latest) == b""  # all that were open before it have been looked at
            holding.let_go.set()
            idle.sendall(get("/", "Connection: close"))
            for connection in (idle, waiting):
                assert (await everything_from(connection)).endswith(b"hello")
        assert server.connections.silent == 1


async def test_when_there_are_many_the_oldest_silent_one_makes_room() -> None:
    async with guarded(greet, in_all=4) as server:
        with ExitStack() as stack:
            asker = stack.enter_context(client(server.port, SOMEBODY, get()))
            assert await asyncio.to_thread(asker.recv, 1) == b"H"
            silent = open_from(stack, server, ANOTHER, 3)
            await server.until(lambda connections: connections.open == 4)
            assert (await answer_to(server, EXEMPT)).endswith(b"hello")
            assert await everything_from(silent[0]) == b""
            assert server.connections.silent == 1
            for connection in (asker, silent[1]):
                connection.sendall(get("/", "Connection: close"))
                assert (await everything_from(connection)).endswith(b"hello")


async def asked_once(stack: ExitStack, server: Guarded, address: str) -> socket.socket:
    """A connection that has its answer, and is idle."""
    connection = stack.enter_context(client(server.port, address, get()))
    answer = b""
    while not answer.endswith(b"hello"):
        answer += await asyncio.to_thread(connection.recv, 1_024)
    return connection


async def held(stack: ExitStack, server: Guarded) -> socket.socket:
    """A connection whose request is under way."""
    known = server.connections.open
    connection = stack.enter_context(client(server.port, SOMEBODY, get("/held", "Connection: close")))
    await server.until(
        lambda connections: connections.open > known and all(one.has_asked for one in connections.all())
    )
    return connection


async def test_when_none_is_silent_an_idle_one_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_connections, "_SOON_SECONDS", 0.01)
    holding = Holding()
    with capture_logs() as lines:
        async with guarded(holding.answer, in_all=3) as server:
            with ExitStack() as stack:
                busy = await held(stack, server)
                idle = [await asked_once(stack, server, ANOTHER) for _ in range(2)]
                await server.until(lambda connections: sum(one.is_idle for one in connections.all()) == 2)

                assert (await answer_to(server, EXEMPT)).endswith(b"hello")

                assert await everything_from(idle[0]) == b""
                holding.let_go.set()
                idle[1].sendall(get("/", "Connection: close"))
                for connection in (idle[1], busy):
                    assert (await everything_from(connection)).endswith(b"hello")

    made_room = [line for line in lines if line["event"] == "connections_made_room"]
    assert [line["addresses"] for line in made_room] == [{ANOTHER: 1}]


async def test_a_new_connection_is_served_when_all_others_are_busy() -> None:
    holding = Holding()
    async with guarded(holding.answer, in_all=2) as server:
        with ExitStack() as stack:
            busy = [await held(stack, server) for _ in range(2)]
            assert (await answer_to(server, EXEMPT)).endswith(b"hello")
            holding.let_go.set()
            for connection in busy:
                assert (await everything_from(connection)).endswith(b"hello")


async def test_an_unknown_aiohttp_is_found_out_and_not_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("_current_request", "_messages", "_request_count")
    assert aiohttp_internals.has_known_attributes(web.RequestHandler)
    assert not aiohttp_internals.has_known_attributes(type("Handler", (), dict.fromkeys(names)))
    monkeypatch.setattr(connection_module.Connection, "__init__", None)
    with capture_logs() as lines:
        async with guarded(greet, per_address=1) as server:
            with ExitStack() as stack:
                open_from(stack, server, SOMEBODY, 3)
                assert (await answer_to(server, SOMEBODY)).endswith(b"hello")
    assert {line["event"] for line in lines} == {"connections_not_guarded"}


async def test_connections_are_guarded_without_private_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiohttp_internals, "_HAS_KNOWN_ATTRIBUTES", False)
    async with guarded(greet, per_address=1) as server:
        with client(server.port) as silent:
            await server.until(lambda connections: connections.open == 1)
            assert b" 429 " in await answer_to(server, SOMEBODY)
            silent.sendall(get("/", "Connection: close"))
            assert (await everything_from(silent)).endswith(b"hello")
