"""HTTP by hand, for what no client library would send."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tests.support.asking import Answer
from tests.support.server import RunningServer

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RawConnection:
    """A connection that sends exactly the given bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, to_head: bool = False) -> Answer:
        """The next answer; one to a HEAD request has no body whatever its headers say."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            status_line, *lines = head.decode("utf-8", "surrogateescape").split("\r\n")[:-2]
            headers = CIMultiDict(
                (name, value.strip()) for name, _, value in (s.partition(":") for s in lines)
            )
            length = 0 if to_head else int(headers.get("Content-Length", "0"))
            body = await self.reader.readexactly(length)
        return Answer(int(status_line.split()[1]), CIMultiDictProxy(headers), body)

    async def rest(self) -> bytes:
        """The bytes until the server closes the connection."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self.reader.read()


@asynccontextmanager
async def raw_connection(server: RunningServer) -> AsyncIterator[RawConnection]:
    """A fresh connection, closed at the end of the block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", URL(server.url).port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ask_raw(server: RunningServer, request: bytes) -> Answer:
    """The first answer to these bytes, on a connection of their own."""
    async with raw_connection(server) as connection:
        await connection.send(request)
        return await connection.answer(to_head=request.startswith(b"HEAD "))


def spell(method: str, path: str, body: bytes = b"", *headers: bytes) -> bytes:
    """A request with a Host and, when it has a body, its length."""
    length = [b"Content-Length: %d" % len(body)] if body else []
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: bridge.example", *headers, *length, b"", body]
    return b"\r\n".join(lines)
