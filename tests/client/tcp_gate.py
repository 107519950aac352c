"""A door before a server, on a real port, through which connections go while it is open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from yarl import URL


class TcpGate:
    """Forwards bytes in both directions. While it is shut, it lets nobody in and everybody fall."""

    def __init__(self, url: str) -> None:
        self._target = URL(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_open = True
        self.url = ""

    def shut(self) -> None:
        """Break off every connection, and refuse new ones."""
        self._is_open = False
        for writer in self._writers:
            writer.transport.abort()

    def reopen(self) -> None:
        """Let connections through again."""
        self._is_open = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.transport.abort()
            return
        other_reader, other_writer = await asyncio.open_connection(self._target.host, self._target.port)
        both = {writer, other_writer}
        self._writers |= both
        try:
            await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        finally:
            self._writers -= both


@asynccontextmanager
async def tcp_gate(url: str) -> AsyncIterator[TcpGate]:
    """An open gate before the server at that URL."""
    gate = TcpGate(url)
    server = await asyncio.start_server(gate.serve, "127.0.0.1", 0)
    gate.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield gate
    finally:
        gate.shut()
        server.close()
        await server.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
