"""Clients that need not read what they ask for, and a small application that guards its connections."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from aiohttp import web

from bridge_server.settings.types import networks
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.connection import GuardedRunner
from bridge_server.web.open_connections import CONNECTIONS, ConnectionLimits, Connections, UnreadLimits
from tests.support.eventually import eventually

UPGRADE = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)  # fmt: skip
"""The headers of a request for a WebSocket."""

SOMEBODY, ANOTHER = "127.0.0.2", "127.0.0.3"

_PATIENCE_SECONDS = 60.0


@contextmanager
def client(
    port: int, address: str = SOMEBODY, said: bytes = b"", small: bool = True
) -> Iterator[socket.socket]:
    """A client at this address that has said this; a small one's machine takes little by itself."""
    with socket.socket() as connection:
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.bind((address, 0))
        connection.settimeout(_PATIENCE_SECONDS)
        connection.connect(("127.0.0.1", port))
        if said:
            connection.sendall(said)
        yield connection


def get(path: str = "/", *headers: str, version: str = "1.1") -> bytes:
    """A request that has no body."""
    return "\r\n".join([f"GET {path} HTTP/{version}", "Host: bridge.example", *headers, "", ""]).encode()


def read_all(connection: socket.socket) -> bytes:
    """The bytes until the server ends the connection, in any way."""
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


async def everything_from(connection: socket.socket) -> bytes:
    """Read until the server ends the connection, from a thread."""
    return await asyncio.to_thread(read_all, connection)


_LONG_SECONDS = 60.0
_MANY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Guarded:
    """The server, and what it knows of its connections."""

    port: int
    connections: Connections
    limits: ConnectionLimits

    async def until(self, holds: Callable[[Connections], bool]) -> None:
        """Return once this holds."""

        await eventually(lambda: holds(self.connections))

    async def until_known(self, connections: int) -> None:
        """Return once so many connections have been opened; those that were cut off count."""
        await self.until(lambda known: known.open + known.cut == connections)


@asynccontextmanager
async def guarded(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
    *,
    per_address: int = 1_000,
    in_all: int = 1_000,
    head_seconds: float = _LONG_SECONDS,
    address_bytes: int = _MANY,
    total_bytes: int = _MANY,
    patience_seconds: float = _LONG_SECONDS,
    trusted: str = "",
    exempt: str = "127.0.0.1/32",
) -> AsyncIterator[Guarded]:
    """Answer every path of a server with this handler."""
    limits = ConnectionLimits(
        per_address, in_all, head_seconds, UnreadLimits(address_bytes, total_bytes, patience_seconds)
    )
    connections = Connections(ClientAddresses(networks(trusted), networks(exempt)), limits)
    application = web.Application()
    application[CONNECTIONS] = connections
    application.router.add_route("*", "/{anything:.*}", handle)
    runner = GuardedRunner(
        application, _refuse, connections, shutdown_seconds=5.0, has_help=False, keepalive_timeout=75.0
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        yield Guarded(runner.addresses[0][1], connections, limits)
    finally:
        connections.stop()
        for connection in list(connections.all()):
            connection.cut()
        await runner.cleanup()


def _refuse(_: web.BaseRequest, status: int, detail: str) -> web.Response:
    return web.Response(status=status, text=detail)
