"""A database that may hold so many bytes: over that nothing is added, and everything else goes on."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge_server.kernel.errors import DatabaseFullError
from bridge_server.kernel.events import Events
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import put
from tests.support.asking import Answer, ask
from tests.support.drivers import make_notes_file
from tests.support.eventually import eventually
from tests.support.figures import METRICS_TOKEN, figure
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import connected

LIMIT = 2_000_000
LARGE = b'{"encryptionPayload":"%b","dappName":"Dapp"}' % (b"x" * 50_000)
HOOK = b'{"topic":"a","webhook":"https://example.org/hook"}'
ADDRESS = b'"type":"log","token":"device"'
CLIENT = b'{"bridge":"https://bridge.example.org","topic":"a",%b,"peerName":"Dapp","language":"en"}' % ADDRESS


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
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


async def test_requests_that_add_data_are_refused_with_advice(server: RunningServer) -> None:
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


async def test_reads_deletions_and_sweeps_go_on_and_make_room(server: RunningServer) -> None:
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

    await eventually(has_room)
    await eventually(is_ready_without_a_but)


async def test_a_socket_is_closed_with_try_again_later(server: RunningServer) -> None:
    await fill(server, await server.open_session())

    async with connected(server.client, server.url) as dapp:
        await dapp.say("topic", "pub")

        code, reason = await dapp.closed()

    assert (code, "the server has as much waiting" in reason) == (1013, True)


async def test_by_default_there_is_no_limit_and_nothing_is_counted(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", metrics_token=METRICS_TOKEN) as server:
        await server.open_session()

        metrics = await ask(server, "GET", "/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})

    assert b"database_used_bytes" not in metrics.body


async def test_a_server_that_starts_over_its_limit_is_full_at_once(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data") as server:
        session_id = await server.open_session()
    async with running_server(tmp_path / "data", database_limit=1_000) as server:
        (await ask(server, "POST", "/session/new")).problem(503)
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


async def test_free_pages_do_not_count_and_the_log_does(tmp_path: Path, events: Events) -> None:
    file = make_notes_file(tmp_path)

    def add() -> Transaction[None]:
        yield Statement("INSERT INTO notes (name, data) VALUES ('large', ?)", (bytes(3_000_000),))

    def delete() -> Transaction[None]:
        yield Statement("DELETE FROM notes")

    database = SqliteDatabase(file, events, limit_bytes=LIMIT)
    async with database.opened():
        await database.transaction(add, adds=True)
        with pytest.raises(DatabaseFullError):
            await database.transaction(put("a", "text"), adds=True)
        with pytest.raises(DatabaseFullError):
            database.require_room()

        await database.transaction(delete)

        async def has_room() -> bool:  # once the log is cut off: it has three million bytes
            return not database.is_full

        await eventually(has_room)
        await database.transaction(put("a", "text"), adds=True)
        assert file.stat().st_size > LIMIT
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name FROM notes").fetchall() == [("a",)]
