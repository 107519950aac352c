"""Server-sent events to clients that do not read them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from bridge_server.web.answers import MOST_BUFFERED_BYTES, EventStream, piece
from tests.support.rows import each_row


class Flood:
    """A source that pushes until the client is cut off."""

    def __init__(self) -> None:
        self.pushed_bytes = 0
        self.is_left = asyncio.Event()

    async def flow(self, outlet: EventStream) -> None:
        events = piece(b":" + b"x" * 65_536 + b"\n\n")
        while True:
            outlet.push(events)
            self.pushed_bytes += len(events.plain)
            await asyncio.sleep(0)

    def leave(self) -> None:
        self.is_left.set()


class Stuck(Flood):
    """A source that waits for its client, until `hurry` is called."""

    async def flow(self, outlet: EventStream) -> None:
        asyncio.get_running_loop().call_later(0.2, outlet.hurry)
        while True:
            await outlet.write(b":" + b"x" * 65_536 + b"\n\n")


@asynccontextmanager
async def streaming(source: Flood, *, leaving: bool = False) -> AsyncIterator[int]:
    """The port of a server that streams this; with `leaving`, to clients that are gone before it begins."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if leaving and request.transport is not None:
            request.transport.abort()
        return EventStream(source)

    runner = web.ServerRunner(web.Server(handle, access_log=None, handler_cancellation=True))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def connect_without_reading(port: int) -> socket.socket:
    """A client that asks for a stream and then does nothing."""
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return client


@each_row("source_of", [Flood, Stuck])
async def test_a_client_that_does_not_read_is_cut_off(source_of: type[Flood]) -> None:
    source = source_of()
    async with streaming(source) as port, AsyncExitStack() as stack:
        stack.callback(connect_without_reading(port).close)

        await asyncio.wait_for(source.is_left.wait(), 20)


async def test_unread_events_of_a_client_are_bounded() -> None:
    source = Flood()
    async with streaming(source) as port, AsyncExitStack() as stack:
        client = connect_without_reading(port)
        stack.callback(client.close)
        await asyncio.wait_for(source.is_left.wait(), 20)
        received = await asyncio.to_thread(read_all, client)

    assert source.pushed_bytes - received < MOST_BUFFERED_BYTES + 1_000_000


def read_all(client: socket.socket) -> int:
    """How many bytes came before the connection broke."""
    received = 0
    try:
        while data := client.recv(1 << 20):
            received += len(data)
    except ConnectionError:
        pass
    return received


async def test_a_client_that_left_before_it_began_is_forgotten() -> None:
    source = Flood()
    async with streaming(source, leaving=True) as port, AsyncExitStack() as stack:
        stack.callback(connect_without_reading(port).close)

        await asyncio.wait_for(source.is_left.wait(), 20)

    assert source.pushed_bytes == 0
