"""A client that does as little as possible: whole requests out, and of the answers only what is asked."""

import asyncio
import http.client
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request was answered."""

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
    connection = http.client.HTTPConnection(*address(url), timeout=30)
    try:
        headers = {"Content-Type": "application/json"} if body else {}
        if header is not None:
            name, _, value = header.partition(": ")
            headers[name] = value
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers.get("Content-Type"), response.read())
    finally:
        connection.close()


def encode(url: str, method: str, path: str, body: bytes | None = None, header: str | None = None) -> bytes:
    """The bytes of a request; `header` is one more field, `Name: value`."""
    host, port = address(url)
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n"
    if header is not None:
        head += f"{header}\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    elif method != "GET":
        head += "Content-Length: 0\r\n"
    return head.encode("ascii") + b"\r\n" + (body or b"")


class Connection(asyncio.Protocol):
    """A connection that is kept; `answered` is called with the status of each answer, in order."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = b""

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
        """What to do with an answer; for the subclass to say."""
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

    def __init__(self) -> None:
        super().__init__()
        self._answer: asyncio.Future[int] | None = None

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
