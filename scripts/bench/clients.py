"""HTTP clients that do as little as possible: they send whole requests and read the status of each answer."""

import asyncio
import gc
import http.client
import resource
import socket
import struct
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from machine import new_event_loop

PLACEHOLDER = b"@" * 12
_END_OF_HEAD = b"\r\n\r\n"
_OPENING_AT_ONCE = 100
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    status: int
    content_type: str | None
    body: bytes


def address(url: str) -> tuple[str, int]:
    """Host and port of a base URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def fetch(url: str, method: str, path: str, body: bytes | None = None, header: str | None = None) -> Answer:
    """One request on a connection of its own, blocking; `header` is one more field, `Name: value`."""
    connection = http.client.HTTPConnection(*address(url), timeout=60)
    try:
        name, _, value = (header or "Accept: */*").partition(": ")
        content = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, body, {name: value, **content})
        response = connection.getresponse()
        return Answer(response.status, response.headers.get("Content-Type"), response.read())
    finally:
        connection.close()


def encode(url: str, method: str, path: str, body: bytes | None = None, header: str | None = None) -> bytes:
    """The bytes of a request; `header` is one more field, `Name: value`."""
    return f"{method} {path}".encode("ascii") + encode_after_path(url, method, body, header)


def encode_after_path(url: str, method: str, body: bytes | None, header: str | None) -> bytes:
    """All of a request that follows its path."""
    host, port = address(url)
    fields = [f"Host: {host}:{port}", *([header] if header else [])]
    if body is not None:
        fields += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    elif method != "GET":
        fields.append("Content-Length: 0")
    return "\r\n".join([" HTTP/1.1", *fields, "\r\n"]).encode("ascii") + (body or b"")


class Connection(asyncio.Protocol):
    """A connection that is kept; `answered` is called with the status of each answer, in order."""

    transport: asyncio.Transport
    _received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(_END_OF_HEAD)) >= 0:
            whole = end + len(_END_OF_HEAD) + _body_length(self._received[:end])
            if len(self._received) < whole:
                return
            status = int(self._received[9:12])
            self._received = self._received[whole:]
            self.answered(status)

    def answered(self, status: int) -> None:
        """Handle an answer; each subclass says how."""
        raise NotImplementedError


def _body_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at < 0:
        return 0
    line_end = lowered.find(b"\r\n", at + 2)
    return int(lowered[at + 17 : line_end if line_end >= 0 else None])


class Asker(Connection):
    """Asks one thing at a time and waits for the answer."""

    _answer: "asyncio.Future[int] | None" = None

    async def ask(self, request: bytes) -> int:
        """Send the request; return the status of its answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def answered(self, status: int) -> None:
        assert self._answer is not None
        self._answer.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server closed the connection"))


async def wait_for_status(dapp: Asker, url: str, call: str) -> tuple[int, float]:
    """Long-poll for a call's status until there is one; return the answer's status and time."""
    request = encode(url, "GET", f"/call-status/{call}?wait=25")
    while (status := await dapp.ask(request)) == HTTPStatus.NO_CONTENT:
        pass
    return status, time.perf_counter()


class HasTransport(Protocol):
    """A client that can be closed."""

    transport: asyncio.Transport


async def open_clients(url: str, clients: Sequence[asyncio.Protocol]) -> None:
    """Connect them, a hundred at a time."""
    loop, host_and_port = asyncio.get_running_loop(), address(url)

    async def connect(client: asyncio.Protocol) -> None:
        await loop.create_connection(lambda: client, *host_and_port)

    for start in range(0, len(clients), _OPENING_AT_ONCE):
        await asyncio.gather(*map(connect, clients[start : start + _OPENING_AT_ONCE]))


async def open_askers(url: str, count: int) -> list[Asker]:
    """So many connected clients."""
    askers = [Asker() for _ in range(count)]
    await open_clients(url, askers)
    return askers


def close_clients(clients: Iterable[HasTransport]) -> None:
    """Leave, without keeping the port for the minute that TIME_WAIT lasts: there are not so many."""
    for client in clients:
        opened = client.transport.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        client.transport.abort()


@contextmanager
def _many_descriptors() -> Iterator[None]:
    """Let this process, but none it starts later, open as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def run(work: Coroutine[Any, Any, Value]) -> Value:
    """Run it on the fast event loop with many descriptors. Processes to measure are started before."""
    gc.collect()
    gc.disable()  # thousands of clients are walked through else
    try:
        with _many_descriptors(), asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(work)
    finally:
        gc.enable()
