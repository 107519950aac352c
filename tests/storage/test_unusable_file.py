"""A server whose database file is locked, gone, at its limit, or on a full disk.

It says «later», serves readers, loses nothing that it answered, and recovers.

White-box: how often the write-ahead log is copied back has no setting, and would make room.
"""

import asyncio
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.kernel.errors import DatabaseFullError
from bridge_server.kernel.events import Events
from bridge_server.storage import sqlite
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import ask as ask_file
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


async def test_a_locked_file_is_503_and_stores_nothing(impatient: None, tmp_path: Path) -> None:
    async with running_server(tmp_path / "data") as server:
        bridge = BridgeClient(server)
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
        assert await is_ready(server)
        with locked(server.settings.database_file):
            for each in writes:
                refused: Answer = await each()
                detail = refused.problem(503)["detail"]
                assert int(refused.headers["Retry-After"]) >= 1
                assert "Nothing was stored" in detail
                assert "locked" in detail
                unready = await ask(server, "GET", "/readyz")
                unready.problem(503)
                assert "Retry-After" in unready.headers
            assert (await ask(server, "GET", "/livez")).status == 200

        await eventually(lambda: is_ready(server))
        assert (await bridge.session(session_id)).status == 204
        assert (await bridge.status(call_id)).status == 204
        assert await bridge.pending(session_id) == [call_id]
        assert [(await each()).status for each in writes[:4]] == [200] * 4


async def test_a_server_with_a_locked_database_stops(impatient: None, tmp_path: Path) -> None:
    with ExitStack() as until_the_end:
        async with running_server(tmp_path / "data", quota_exempt=()) as server:
            until_the_end.enter_context(locked(server.settings.database_file))
            (await ask(server, "POST", "/session/new", b"x" * 300_000)).problem(413)


SPOILED: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "log deleted": lambda file: file.with_name(f"{file.name}-wal").unlink(),
    "directory deleted": lambda file: shutil.rmtree(file.parent),
    "replaced": lambda file: Path(shutil.copy(file, file.with_name("copy"))).rename(file),
}


@pytest.mark.own_server
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
async def test_writes_are_503_from_then_on(server: RunningServer, spoil: Callable[[Path], object]) -> None:
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
    aside = file.rename(file.with_name("aside"))
    (await ask(server, "GET", "/readyz")).problem(503)
    (await write(server)).problem(503)
    aside.rename(file)
    assert (await write(server)).status == 200
    assert await is_ready(server)


LIMIT = 2_000_000
HOUR_SECONDS = 3_600.0


async def test_what_adds_data_is_refused_with_advice_and_reads_deletions_and_sweeps_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pass_time: PassTime
) -> None:
    large = b'{"encryptionPayload":"%b","dappName":"Dapp"}' % (b"x" * 50_000)
    hook = b'{"topic":"a","webhook":"https://example.org/hook"}'
    device = b'"type":"log","token":"device","peerName":"Dapp","language":"en"'
    client = b'{"bridge":"https://bridge.example.org","topic":"a",%b}' % device
    settings: dict[str, Any] = {"sweep_interval": 0.05, "public_url": "https://bridge.example.org"}
    # The log is not cut off for an hour: that makes room.
    monkeypatch.setattr(sqlite, "_CHECKPOINT_EVERY_SECONDS", HOUR_SECONDS)
    async with running_server(
        tmp_path / "data", database_limit=LIMIT, metrics_token=METRICS_TOKEN, **settings
    ) as server:
        session_id, other_id = await server.open_session(), await server.open_session()
        call_id = await server.request_call(session_id)
        while (await ask(server, "POST", f"/session/{session_id}/call/new", large)).status == 200:
            pass

        for method, path, body in (
            ("POST", "/session/new", None),
            ("PUT", f"/session/{session_id}", large),
            ("POST", f"/session/{session_id}/call/new", large),
            ("POST", f"/call-status/{call_id}/new", large),
            ("POST", "/subscribe", hook),
            ("POST", "/new", client),
            ("POST", "/inbox/nonce", None),
        ):
            refused = await ask(server, method, path, body)
            problem = refused.problem(503)
            assert problem["type"].endswith(":database-full"), path
            assert all(word in problem["detail"] for word in ("database_limit", "call_ttl", "expires"))
            assert int(refused.headers["Retry-After"]) >= 1
        assert await figure(server, "database_used_bytes") < LIMIT + 500_000
        async with connected(server.client, server.url) as dapp:
            await dapp.say("topic", "pub")
            code, reason = await dapp.closed()
        assert (code, "the server has as much waiting" in reason) == (1013, True)

        assert (await ask(server, "GET", f"/session/{session_id}/calls")).status == 200
        assert (await ask(server, "GET", f"/call-status/{call_id}")).status == 204
        ready = await ask(server, "GET", "/readyz")
        assert (ready.status, b"full" in ready.body) == (200, True)
        assert (await ask(server, "DELETE", f"/session/{session_id}")).status == 200

        async def has_room() -> bool:
            return (await ask(server, "PUT", f"/session/{other_id}", large)).status == 200

        async def is_ready_without_a_but() -> bool:
            return (await ask(server, "GET", "/readyz")).body == b"ready\n"

        monkeypatch.setattr(sqlite, "_CHECKPOINT_EVERY_SECONDS", 0.02)
        await pass_time(HOUR_SECONDS)
        await eventually(has_room)
        await eventually(is_ready_without_a_but)


async def test_no_limit_by_default_and_a_server_over_its_limit_is_full(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", metrics_token=METRICS_TOKEN) as server:
        session_id = await server.open_session()
        metrics = await ask(server, "GET", "/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
        assert b"database_used_bytes" not in metrics.body
    async with running_server(tmp_path / "data", database_limit=1_000) as server:
        (await write(server)).problem(503)
        assert (await ask(server, "DELETE", f"/session/{session_id}")).status == 200


async def test_waiting_transactions_are_refused_once_full(tmp_path: Path, events: Events) -> None:
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
async def test_a_full_disk_loses_no_answered_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):  # its data would not fit either
        monkeypatch.delenv(name, raising=False)
    answered: list[str] = []
    waits: list[int] = []

    async def write() -> int:
        async with client.post("/session/new") as response:
            if response.status == 200:
                answered.append((await response.json())["sessionId"])
            else:
                waits.append(int(response.headers["Retry-After"]))
            return response.status

    async def write_many(count: int) -> set[int]:
        return set(await asyncio.gather(*(write() for _ in range(count))))

    async def status_of(path: str) -> int:
        async with client.get(path) as response:
            return response.status

    async def is_ready() -> bool:
        return await status_of("/readyz") == 200

    with watched_server(tmp_path) as watched:
        async with aiohttp.ClientSession(watched.url) as client:
            assert await write_many(50) == {200}
            assert await is_ready()
            for _ in range(3):
                with full_disk(watched):
                    assert await write_many(20) == {503}
                    assert [await status_of("/readyz") for _ in range(2)] == [503, 503]
                    assert await status_of("/livez") == 200
                    assert await status_of(f"/session/{answered[0]}") == 204
                    assert watched.process.poll() is None
                await eventually(is_ready)
                assert await write_many(20) == {200}
        assert watched.stop(signal.SIGTERM) == 0

    assert min(waits) >= 1
    file = tmp_path / "data" / "bridge.sqlite3"
    assert ask_file(file, "PRAGMA integrity_check") == [("ok",)]
    assert len(answered) >= 80
    assert {session_id for (session_id,) in ask_file(file, "SELECT session_id FROM sessions")} == set(
        answered
    )
