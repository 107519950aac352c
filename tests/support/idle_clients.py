"""Clients at several addresses of this machine, which need not read what they ask for."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

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
