"""Proxies: one before PostgreSQL ends a connection at a message or keeps the message for later, one ends the
connections of a server, and one stands for a public address.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web

from tests.support.fakes import listening

_CHUNK = 65_536


def _message(kind: bytes, severity: bytes) -> bytes:
    text = b"S%s\0V%s\0C57P01\0Mterminating connection due to administrator command\0\0"
    fields = text % (severity, severity)
    return kind + (len(fields) + 4).to_bytes(4, "big") + fields


class CuttingProxy:
    """Passes everything on, until it is ordered to cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._database = parts.path
        self._order = ""
        self._text = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._clients: list[asyncio.StreamWriter] = []
        self._silenced: set[asyncio.StreamWriter] = set()
        self._kept: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.port = 0
        self.is_refusing = False
        self.cuts = 0

    @property
    def url(self) -> str:
        return f"postgresql://bridge@127.0.0.1:{self.port}{self._database}"

    def cut_before(self, text: bytes) -> None:
        """End both sides at the next message with this text, which the server never gets."""
        self._text, self._order = text, "drop"

    def cut_answer(self, text: bytes) -> None:
        """Pass the next message with this text on, and end the client's side before the answer."""
        self._text, self._order = text, "pass"

    def keep(self, text: bytes) -> None:
        """End the client's side at the next message with this text; the server gets it with `release`."""
        self._text, self._order = text, "keep"

    async def release(self) -> None:
        kept, self._kept = self._kept, []
        for server, data in kept:
            server.write(data)
            await server.drain()

    def cut_all(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        self._clients.clear()

    def say_last_words(self) -> None:
        """Say a notice, which shows that it has arrived, and what ends a connection; then nothing more."""
        for client in self._clients:
            client.write(_message(b"N", b"WARNING") + _message(b"E", b"FATAL"))
        self._silenced.update(self._clients)
        self._clients.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            writer.close()
            return
        from_server, to_server = await asyncio.open_unix_connection(self._socket)
        self._writers += [writer, to_server]
        self._clients.append(writer)
        for work in (self._upwards(reader, to_server, writer), self._downwards(from_server, writer)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _upwards(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._order and self._text in data:
                    self._cut(server, client, data)
                    return
                server.write(data)
        server.close()

    def _cut(self, server: asyncio.StreamWriter, client: asyncio.StreamWriter, data: bytes) -> None:
        order, self._order = self._order, ""
        self.cuts += 1
        if order == "keep":
            self._kept.append((server, data))
            client.close()
            return
        client.transport.abort()
        if order == "pass":
            server.write(data)
        else:
            server.transport.abort()

    async def _downwards(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if not client.is_closing() and client not in self._silenced:
                    client.write(data)
        client.close()

    async def close(self) -> None:
        self.cut_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def open_cutting_proxy(url: str) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()


@asynccontextmanager
async def open_closing_proxy(node_url: str, *, is_silent: bool = False) -> AsyncIterator[str]:
    """The URL of a proxy that closes each connection after an answer: by HTTP/1.0, or silently by 1.1."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = re.findall(rb"content-length: *(\d+)", head.lower())
        body = await reader.readexactly(int(length))
        async with aiohttp.ClientSession() as client, client.post(node_url, data=body) as answer:
            content = await answer.read()
        kind = b"200 OK\r\nContent-Type: application/json\r\n"
        if is_silent:
            writer.write(b"HTTP/1.1 %bContent-Length: %d\r\n\r\n%b" % (kind, len(content), content))
        else:
            writer.write(b"HTTP/1.0 %b\r\n%b" % (kind, content))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@dataclass(slots=True)
class PublicProxy:
    """A proxy at `url`. It may be misconfigured in each of these ways."""

    upstream: str = ""
    url: str = ""
    forwards_address: bool = True
    upgrades: bool = True
    has_patience: bool = True
    """Without it the proxy answers 504 to a long poll."""
    broken_with: int | None = None
    """The status that it answers by itself."""
    paths: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        if self.broken_with is not None:
            return web.Response(status=self.broken_with)
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._socket(request, session)
            if "wait" in request.query and not self.has_patience:
                return web.Response(status=504)
            return await self._answer(request, session)

    async def _answer(self, request: web.Request, session: aiohttp.ClientSession) -> web.Response:
        headers = _passed(request.headers)
        if self.forwards_address:
            headers["X-Forwarded-For"] = "203.0.113.7"
        async with session.request(
            request.method, f"{self.upstream}{request.path_qs}",
            data=await request.read(), headers=headers, allow_redirects=False,
        ) as answer:  # fmt: skip
            body = await answer.read()
            return web.Response(status=answer.status, body=body, headers=_passed(answer.headers))

    async def _socket(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        if not self.upgrades:
            return web.Response(text="a page")
        socket = web.WebSocketResponse()
        async with session.ws_connect(f"{self.upstream}{request.path_qs}"):
            await socket.prepare(request)
            async for _ in socket:
                pass
        return socket


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    """The header fields that are not about one connection."""
    left_out = {"connection", "content-length", "host", "transfer-encoding", "upgrade"}
    return {name: value for name, value in headers.items() if name.lower() not in left_out}


@asynccontextmanager
async def open_public_proxy() -> AsyncIterator[PublicProxy]:
    """Run a proxy until the block is left; its `upstream` is set later."""
    proxy = PublicProxy()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
    async with listening(runner) as port:
        proxy.url = f"http://127.0.0.1:{port}"
        yield proxy
