"""A server whose disk takes no more: it says «later», loses nothing that it answered, and recovers.

The disk is played by the process's own limit on file sizes, which a Linux machine lets others move.
"""

import asyncio
import resource
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import aiohttp
import pytest

from tests.support.command import WatchedServer, watched_server
from tests.support.eventually import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")


class Writer:
    """Opens sessions and keeps the ids of those that were answered."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self.client = client
        self.url = url
        self.answered: list[str] = []
        self.refused: list[aiohttp.ClientResponse] = []

    async def write(self) -> int:
        async with self.client.post(f"{self.url}/session/new") as response:
            if response.status == 200:
                self.answered.append((await response.json())["sessionId"])
            else:
                self.refused.append(response)
            return response.status

    async def write_many(self, count: int) -> set[int]:
        return set(await asyncio.gather(*(self.write() for _ in range(count))))

    async def status_of(self, path: str) -> int:
        async with self.client.get(f"{self.url}{path}") as response:
            return response.status

    async def is_ready(self) -> bool:
        return await self.status_of("/readyz") == 200

    async def can_write(self) -> bool:
        return await self.write() == 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchedServer]:
    with watched_server(tmp_path) as server:
        yield server


@pytest.fixture
async def writer(server: WatchedServer) -> AsyncIterator[Writer]:
    async with aiohttp.ClientSession() as client:
        yield Writer(client, server.url)


@contextmanager
def full_disk(server: WatchedServer) -> Iterator[None]:
    """Let the server write not one byte into any file."""
    pid, (_, most) = server.process.pid, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


async def test_writes_are_unavailable_and_work_again_when_there_is_room(
    server: WatchedServer, writer: Writer
) -> None:
    assert await writer.write_many(50) == {200}

    with full_disk(server):
        assert await writer.write_many(50) == {503}
        assert all(int(response.headers["Retry-After"]) >= 1 for response in writer.refused)
        assert await writer.status_of("/livez") == 200
        assert await writer.status_of(f"/session/{writer.answered[0]}") == 204
        assert server.process.poll() is None

    await eventually(writer.can_write)
    assert await writer.write_many(50) == {200}


async def test_every_answered_write_is_on_disk(server: WatchedServer, writer: Writer, tmp_path: Path) -> None:
    for _ in range(3):
        await writer.write_many(20)
        with full_disk(server):
            await writer.write_many(20)
    await writer.write_many(20)

    assert server.stop(signal.SIGTERM) == 0

    with closing(sqlite3.connect(tmp_path / "data" / "bridge.sqlite3")) as connection:
        stored = {row[0] for row in connection.execute("SELECT session_id FROM sessions")}
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(writer.answered) >= 80
    assert stored == set(writer.answered)


async def test_the_server_is_not_ready_while_it_cannot_write(server: WatchedServer, writer: Writer) -> None:
    assert await writer.is_ready()

    with full_disk(server):
        assert await writer.write() == 503
        assert await writer.status_of("/readyz") == 503
        assert await writer.status_of("/readyz") == 503

    await eventually(writer.is_ready)


def test_the_server_stops_cleanly_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):  # its data would not fit either
        monkeypatch.delenv(name, raising=False)

    with watched_server(tmp_path) as server:
        for _ in range(3):
            assert open_session(server.url) == 200
        with full_disk(server):
            assert open_session(server.url) == 503

            assert server.stop(signal.SIGTERM) == 0

    assert "Traceback" not in server.err_file.read_text("utf-8")


def open_session(url: str) -> int:
    try:
        with urlopen(Request(f"{url}/session/new", method="POST"), timeout=60) as response:
            status: int = response.status
            return status
    except HTTPError as error:
        return error.code
