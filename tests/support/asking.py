"""One request, and its answer as plain values; a problem; bytes of HTTP; figures of the metrics."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import aiohttp
import orjson
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tests.support.clock import ManualClock
from tests.support.described import description
from tests.support.server import RunningServer
from tests.support.waiting import eventually


def pointers(problem: Mapping[str, Any]) -> list[str]:
    assert all(fault.keys() == {"pointer", "detail"} and fault["detail"] for fault in problem["errors"])
    return [fault["pointer"] for fault in problem["errors"]]


_PATIENCE_SECONDS = 60.0
Headers: TypeAlias = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body of an answer that must be 200 and JSON."""
        assert (self.status, self.headers["Content-Type"]) == (200, "application/json"), self
        return orjson.loads(self.body)

    def problem(self, status: int) -> dict[str, Any]:
        """The problem (RFC 9457) of an answer that must be one of this status and be true to its head."""
        assert (self.status, self.headers["Content-Type"]) == (status, "application/problem+json"), self
        problem: dict[str, Any] = orjson.loads(self.body)
        texts = {"type", "title", "detail", "instance"}
        assert {*texts, "status"} <= problem.keys() <= {*texts, "status", "errors"}
        assert all(isinstance(problem[name], str) and problem[name] for name in texts)
        assert (problem["status"], problem["instance"]) == (status, self.headers["X-Request-ID"])
        prefix, code = problem["type"].rsplit(":", 1)
        assert prefix == "urn:bridge-server:problem"
        assert self.headers["Link"] == f'</docs/errors/{code}>; rel="help"'
        return problem


async def ask(
    server: RunningServer,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Headers = None,
    *,
    content_type: str | None = "application/json",
    client: aiohttp.ClientSession | None = None,
) -> Answer:
    """Send one request, with the path as it is spelled; its answer is held against the description."""
    sent = CIMultiDict(headers or {})
    if body is not None and content_type is not None:
        sent["Content-Type"] = content_type
    patience = aiohttp.ClientTimeout(total=180)
    async with (client or server.client).request(
        method, URL(server.url + path, encoded=True), data=body, headers=sent,
        skip_auto_headers=["Content-Type"], allow_redirects=False, timeout=patience,
    ) as response:  # fmt: skip
        answer = Answer(response.status, response.headers, await response.read())
    description().check(method, path, answer.status, answer.headers, answer.body)
    return answer


@dataclass(frozen=True, slots=True)
class ServerClient:
    server: RunningServer

    @property
    def clock(self) -> ManualClock:
        return self.server.clock

    @property
    def headers(self) -> dict[str, str]:
        """The header fields of every request."""
        return {}

    async def ask(self, method: str, path: str, fields: Any = None, headers: Headers = None) -> Answer:
        """One request; `fields` are sent as JSON, bytes as they are."""
        body = fields if isinstance(fields, bytes) or fields is None else orjson.dumps(fields)
        return await ask(self.server, method, path, body, {**self.headers, **(headers or {})})


async def answer_others(server: RunningServer) -> None:
    """Have the server answer and store requests of others: what is not held back is answered meanwhile."""
    for _ in range(5):
        await ask(server, "POST", "/session/new")


async def next_event(content: aiohttp.StreamReader) -> dict[str, str]:
    """The fields of the next server-sent event, without comments and `retry`; none at the end."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while line := (await content.readline()).decode():
            if line == "\n" and fields:
                return fields
            if not line.startswith((":", "retry: ", "\n")):
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
    return fields


# HTTP by hand, for what no client library would send.


@dataclass(frozen=True, slots=True)
class RawConnection:
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
            fields = (line.partition(":") for line in lines)
            headers = CIMultiDict((name, value.strip()) for name, _, value in fields)
            length = 0 if to_head else int(headers.get("Content-Length", "0"))
            body = await self.reader.readexactly(length)
        return Answer(int(status_line.split()[1]), CIMultiDictProxy(headers), body)

    async def rest(self) -> bytes:
        """The bytes until the server closes the connection."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self.reader.read()


@asynccontextmanager
async def raw_connection(server: RunningServer) -> AsyncIterator[RawConnection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", URL(server.url).port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ask_raw(server: RunningServer, request: bytes) -> Answer:
    async with raw_connection(server) as connection:
        await connection.send(request)
        return await connection.answer(to_head=request.startswith(b"HEAD "))


def spell(method: str, path: str, body: bytes = b"", *headers: bytes) -> bytes:
    """A request with a Host and, when it has a body, its length."""
    length = [b"Content-Length: %d" % len(body)] if body else []
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: bridge.example", *headers, *length, b"", body]
    return b"\r\n".join(lines)


# Figures of the server's metrics, by which a test knows that something is under way, or over.

METRICS_TOKEN = "the token of the metrics"


async def figure(server: RunningServer, name: str) -> float:
    """A gauge of a server that was started with `metrics_token=METRICS_TOKEN`."""
    answer = await ask(server, "GET", "/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    lines = answer.body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"bridge_{name} "))


async def until_waiting(server: RunningServer, clients: int) -> None:
    async def reached() -> bool:
        return await figure(server, "waiting_clients") == clients

    await eventually(reached, _PATIENCE_SECONDS)


async def until_delivered(server: RunningServer) -> None:
    async def nothing_owed() -> bool:
        # On PostgreSQL a server that took long to count shows that figure for a while.
        due = "SELECT count(*) FROM outbox WHERE next_attempt_at_ms IS NOT NULL"
        return await figure(server, "outbox_due") == 0 and server.rows(due) == [(0,)]

    await eventually(nothing_owed, _PATIENCE_SECONDS)
