"""A server whose database file is locked, gone, at its limit, or on a full disk.

It says «later», serves readers, loses nothing that it answered, and recovers.
"""

import asyncio
import resource
import shutil
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.kernel.errors import DatabaseFullError
from bridge_server.kernel.events import Events
from bridge_server.storage import sqlite
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.sqlite import SqliteDatabase
from tests.support.asking import METRICS_TOKEN, Answer, ask, figure
from tests.support.bridge_client import BridgeClient
from tests.support.clock import PassTime
from tests.support.command import WatchedServer, watched_server
from tests.support.drivers import make_notes_file
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import connected
from tests.support.waiting import eventually, locked


async def write(server: RunningServer) -> Answer:
    return await ask(server, "POST", "/session/new")


async def is_ready(server: RunningServer) -> bool:
    return (await ask(server, "GET", "/readyz")).status == 200


# A file that another program holds


@pytest.fixture
async def impatient_server(impatient: None, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path / "data") as server:
        yield server


async def test_every_write_is_answered_503_with_retry_after_and_has_stored_nothing(
    impatient_server: RunningServer,
) -> None:
    server, bridge = impatient_server, BridgeClient(impatient_server)
    session_id = await bridge.open_session()
    call_id = await bridge.request_call(session_id)
    writes: list[Callable[[], Any]] = [
        lambda: write(server),
        lambda: bridge.update(session_id),
        lambda: bridge.answer(call_id),
        lambda: bridge.post_call(session_id),
        lambda: bridge.end(session_id),
        lambda: bridge.subscribe(session_id, "https://example.org/hook"),
    ]

    with locked(server.settings.database_file):
        for each in writes:
            refused: Answer = await each()

            detail = refused.problem(503)["detail"]
            assert int(refused.headers["Retry-After"]) >= 1
            assert "Nothing was stored" in detail
            assert "locked" in detail

    assert (await bridge.session(session_id)).status == 204
    assert (await bridge.status(call_id)).status == 204
    assert await bridge.pending(session_id) == [call_id]
    for each in writes[:4]:
        assert (await each()).status == 200


async def test_readiness_is_lost_with_the_first_refused_write_and_comes_back_by_itself(
    impatient_server: RunningServer,
) -> None:
    assert await is_ready(impatient_server)

    with locked(impatient_server.settings.database_file):
        (await write(impatient_server)).problem(503)
        refused = await ask(impatient_server, "GET", "/readyz")
        refused.problem(503)
        assert "Retry-After" in refused.headers
        assert (await ask(impatient_server, "GET", "/livez")).status == 200

    await eventually(lambda: is_ready(impatient_server))
    assert (await write(impatient_server)).status == 200


async def test_a_server_whose_database_is_locked_stops_without_a_complaint(
    impatient: None, tmp_path: Path
) -> None:
    with ExitStack() as until_the_end:
        async with running_server(tmp_path / "data", quota_exempt=()) as server:
            until_the_end.enter_context(locked(server.settings.database_file))
            (await ask(server, "POST", "/session/new", b"x" * 300_000)).problem(413)


# A file that is deleted, or replaced


def delete(file: Path) -> None:
    file.unlink()


def delete_the_log(file: Path) -> None:
    file.with_name(f"{file.name}-wal").unlink()


def delete_the_directory(file: Path) -> None:
    shutil.rmtree(file.parent)


def replace(file: Path) -> None:
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    copy.rename(file)


@pytest.mark.own_server
@pytest.mark.parametrize("spoil", [delete, delete_the_log, delete_the_directory, replace])
async def test_writes_and_readiness_are_503_from_then_on(
    server: RunningServer, spoil: Callable[[Path], None]
) -> None:
    session_id = await server.open_session()

    spoil(server.settings.database_file)

    for _ in range(2):
        refused = await write(server)
        assert "deleted or replaced" in refused.problem(503)["detail"]
        assert int(refused.headers["Retry-After"]) >= 1
        (await ask(server, "GET", "/readyz")).problem(503)
    assert (await ask(server, "GET", "/livez")).status == 200
    assert (await ask(server, "GET", f"/session/{session_id}")).status == 204


@pytest.mark.own_server
async def test_readiness_is_lost_without_a_write_and_comes_back_with_the_file(server: RunningServer) -> None:
    file = server.settings.database_file
    aside = file.with_name("aside")
    file.rename(aside)
    (await ask(server, "GET", "/readyz")).problem(503)
    (await write(server)).problem(503)

    aside.rename(file)

    assert (await write(server)).status == 200
    assert await is_ready(server)


# A file that may have so many bytes

LIMIT = 2_000_000
LARGE = b'{"encryptionPayload":"%b","dappName":"Dapp"}' % (b"x" * 50_000)
HOOK = b'{"topic":"a","webhook":"https://example.org/hook"}'
ADDRESS = b'"type":"log","token":"device"'
CLIENT = b'{"bridge":"https://bridge.example.org","topic":"a",%b,"peerName":"Dapp","language":"en"}' % ADDRESS


_HOUR_SECONDS = 3_600.0


@pytest.fixture
async def limited_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    """Its log is not cut off for an hour: that makes room."""
    monkeypatch.setattr(sqlite, "_CHECKPOINT_EVERY_SECONDS", _HOUR_SECONDS)
    async with running_server(
        tmp_path / "data",
        database_limit=LIMIT,
        sweep_interval=0.05,
        metrics_token=METRICS_TOKEN,
        public_url="https://bridge.example.org",
    ) as server:
        yield server


async def fill(server: RunningServer, session_id: str) -> None:
    """Store calls until there is no room."""
    path = f"/session/{session_id}/call/new"
    while (await ask(server, "POST", path, LARGE)).status == 200:
        pass


async def test_what_adds_data_is_refused_with_advice(limited_server: RunningServer) -> None:
    server = limited_server
    session_id = await server.open_session()
    call_id = await server.request_call(session_id)
    await fill(server, session_id)

    refused: list[Answer] = [
        await ask(server, "POST", "/session/new"),
        await ask(server, "PUT", f"/session/{session_id}", LARGE),
        await ask(server, "POST", f"/session/{session_id}/call/new", LARGE),
        await ask(server, "POST", f"/call-status/{call_id}/new", LARGE),
        await ask(server, "POST", "/subscribe", HOOK),
        await ask(server, "POST", "/new", CLIENT),
        await ask(server, "POST", "/inbox/nonce"),
    ]

    for answer in refused:
        problem = answer.problem(503)
        assert problem["type"].endswith(":database-full")
        for word in ("database_limit", "call_ttl", "expires"):
            assert word in problem["detail"]
        assert int(answer.headers["Retry-After"]) >= 1
    assert await figure(server, "database_used_bytes") < LIMIT + 500_000
    async with connected(server.client, server.url) as dapp:
        await dapp.say("topic", "pub")
        code, reason = await dapp.closed()
    assert (code, "the server has as much waiting" in reason) == (1013, True)


async def test_reads_deletions_and_sweeps_go_on_and_make_room(
    limited_server: RunningServer, monkeypatch: pytest.MonkeyPatch, pass_time: PassTime
) -> None:
    server = limited_server
    session_id = await server.open_session()
    other_id = await server.open_session()
    call_id = await server.request_call(session_id)
    await fill(server, session_id)

    assert (await ask(server, "GET", f"/session/{session_id}/calls")).status == 200
    assert (await ask(server, "GET", f"/call-status/{call_id}")).status == 204
    ready = await ask(server, "GET", "/readyz")
    assert (ready.status, b"full" in ready.body) == (200, True)
    assert (await ask(server, "DELETE", f"/session/{session_id}")).status == 200

    async def has_room() -> bool:
        return (await ask(server, "PUT", f"/session/{other_id}", LARGE)).status == 200

    async def is_ready_without_a_but() -> bool:
        return (await ask(server, "GET", "/readyz")).body == b"ready\n"

    monkeypatch.setattr(sqlite, "_CHECKPOINT_EVERY_SECONDS", 0.02)
    await pass_time(_HOUR_SECONDS)
    await eventually(has_room)
    await eventually(is_ready_without_a_but)


async def test_by_default_there_is_no_limit_and_a_server_that_starts_over_its_limit_is_full_at_once(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path / "data", metrics_token=METRICS_TOKEN) as server:
        session_id = await server.open_session()
        metrics = await ask(server, "GET", "/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
        assert b"database_used_bytes" not in metrics.body
    async with running_server(tmp_path / "data", database_limit=1_000) as server:
        (await write(server)).problem(503)
        assert (await ask(server, "DELETE", f"/session/{session_id}")).status == 200


async def test_waiting_transactions_are_refused_once_others_fill_the_database(
    tmp_path: Path, events: Events
) -> None:
    def add() -> Transaction[None]:
        yield Statement("INSERT INTO notes (data) VALUES (?)", (bytes(10_000),))

    database = SqliteDatabase(make_notes_file(tmp_path), events, limit_bytes=LIMIT)
    async with database.opened():
        outcomes = await asyncio.gather(
            *(database.transaction(add, adds=True) for _ in range(2_000)), return_exceptions=True
        )

    refused = [outcome for outcome in outcomes if isinstance(outcome, DatabaseFullError)]
    assert 1_000 < len(refused) < 2_000


# A disk that takes no more: played by the process's own limit on file sizes, which Linux lets others move


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


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedServer]:
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):  # its data would not fit either
        monkeypatch.delenv(name, raising=False)
    with watched_server(tmp_path) as server:
        yield server


@pytest.fixture
async def writer(watched: WatchedServer) -> AsyncIterator[Writer]:
    async with aiohttp.ClientSession() as client:
        yield Writer(client, watched.url)


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


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
async def test_a_full_disk_makes_writes_unavailable_and_every_answered_write_is_on_disk(
    watched: WatchedServer, writer: Writer, tmp_path: Path
) -> None:
    assert await writer.write_many(50) == {200}
    assert await writer.is_ready()

    for _ in range(3):
        with full_disk(watched):
            assert await writer.write_many(20) == {503}
            assert [await writer.status_of("/readyz") for _ in range(2)] == [503, 503]
            assert await writer.status_of("/livez") == 200
            assert await writer.status_of(f"/session/{writer.answered[0]}") == 204
            assert watched.process.poll() is None
        await eventually(writer.is_ready)
        assert await writer.write_many(20) == {200}

    assert all(int(response.headers["Retry-After"]) >= 1 for response in writer.refused)
    assert watched.stop(signal.SIGTERM) == 0
    with closing(sqlite3.connect(tmp_path / "data" / "bridge.sqlite3")) as connection:
        stored = {row[0] for row in connection.execute("SELECT session_id FROM sessions")}
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(writer.answered) >= 80
    assert stored == set(writer.answered)
