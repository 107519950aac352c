"""Doors before a server, on a real port: requests or connections go through, or suffer what a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
from aiohttp import web
from yarl import URL

from tests.support.webhook_receiver import Answer, WebhookReceiver, open_receiver, reset, status

_PASSED_ON = ("Content-Type", "Prefer", "Accept", "Authorization")
_PASSED_BACK = ("Content-Type", "Retry-After")
NOT_NOW = {
    "503": status(503),
    "503 with Retry-After": status(503, Retry_After="0"),
    "429": status(429, Retry_After="0"),
    "429 with nonsense": status(429, Retry_After="soon"),
}
"""Answers of a bridge that has not taken the request."""
BROKEN = {"500": status(500), "502": status(502), "broken off": reset}
"""Answers that leave open whether it has."""


@asynccontextmanager
async def gate_before(url: str) -> AsyncIterator[WebhookReceiver]:
    """A gate that sends requests on and answers back once its `script` is over."""

    async def passing(_: WebhookReceiver, request: web.BaseRequest) -> web.Response:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        body = await request.read()
        async with client.request(request.method, url + request.path_qs, data=body, headers=headers) as found:
            back = {name: found.headers[name] for name in _PASSED_BACK if name in found.headers}
            return web.Response(status=found.status, body=await found.read(), headers=back)

    async with aiohttp.ClientSession() as client, open_receiver() as gate:
        gate.otherwise = passing
        yield gate


def losing_the_answer(passing_on: Answer) -> Answer:
    """Send the request on, and break off instead of answering."""

    async def answer(gate: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
        await passing_on(gate, request)
        return await reset(gate, request)

    return answer


def saying(body: bytes, status: int = 200) -> Answer:
    """Answer with this body."""

    async def answer(_: WebhookReceiver, __: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body)

    return answer


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
