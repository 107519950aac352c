"""The write-ahead log: copied back before it grows long, whatever else reads or writes.

White-box: no client notices a checkpoint, so the driver's own figures and limits tell.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bridge_server.kernel.background import running
from bridge_server.kernel.events import Events
from bridge_server.storage import connection, sqlite
from bridge_server.storage.connection import LogFile, open_connection
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.group_commit import SizeLimit
from bridge_server.storage.sqlite import Checkpointer, SqliteDatabase
from tests.support.drivers import make_notes_file
from tests.support.waiting import eventually

MEGABYTE = 2**20


@pytest.fixture
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the log very often."""
    monkeypatch.setattr(sqlite, "_CHECKPOINT_EVERY_SECONDS", 0.002)


@pytest.fixture
def eager(frequent: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the log off whenever it is looked at."""
    monkeypatch.setattr(sqlite, "_WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(sqlite, "_QUIET_SECONDS", 0.0)


@pytest.fixture
async def database(frequent: None, tmp_path: Path, events: Events) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(make_notes_file(tmp_path), events)
    async with database.opened():
        yield database


async def write_a_megabyte(database: SqliteDatabase) -> None:
    def work() -> Transaction[None]:
        yield Statement("DELETE FROM notes")
        for name in "abcd":
            yield Statement("INSERT INTO notes (name, data) VALUES (?, ?)", (name, bytes(MEGABYTE // 4)))

    await database.transaction(work)


async def test_the_log_is_used_over_again_and_so_stays_short(database: SqliteDatabase) -> None:
    tries = 0

    async def begins_anew() -> bool:
        nonlocal tries
        tries += 1
        before = database.figures()["log_bytes"]
        await write_a_megabyte(database)
        return database.figures()["log_bytes"] == before

    for _ in range(10):
        for _ in range(6):
            await write_a_megabyte(database)
        await eventually(begins_anew)
    assert database.figures()["log_bytes"] < (60 + tries) * MEGABYTE


async def test_the_log_is_emptied_at_rest(database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_QUIET_SECONDS", 0.05)
    for _ in range(4):
        await write_a_megabyte(database)
    await eventually(lambda: database.figures()["log_bytes"] == 0)
    assert database.path.stat().st_size >= MEGABYTE


async def test_a_reader_stops_no_write(
    monkeypatch: pytest.MonkeyPatch, eager: None, tmp_path: Path, events: Events
) -> None:
    """Another program reads the state of one moment, as a backup does."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_SECONDS", 60.0)  # a wait for a lock becomes visible
    monkeypatch.setattr(sqlite, "_ALARMING_BYTES", MEGABYTE)
    database = SqliteDatabase(make_notes_file(tmp_path), events)
    async with database.opened():
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM notes").fetchall()
            async with asyncio.timeout(60):
                for _ in range(40):
                    await write_a_megabyte(database)
                    await asyncio.sleep(0)
            assert database.figures()["log_bytes"] > 20 * MEGABYTE
        await eventually(lambda: database.figures()["log_bytes"] == 0)


async def test_a_busy_log_is_begun_anew(monkeypatch: pytest.MonkeyPatch, database: SqliteDatabase) -> None:
    monkeypatch.setattr(sqlite, "_ALARMING_BYTES", 2 * MEGABYTE)
    monkeypatch.setattr(sqlite, "_HURRIED_EVERY_SECONDS", 0.002)

    def work() -> Transaction[None]:
        yield Statement("INSERT INTO notes (name, data) VALUES ('a', ?)", (bytes(MEGABYTE // 8),))
        yield Statement("DELETE FROM notes")

    async def write_forever() -> None:
        while True:
            await database.transaction(work)

    async def stops_growing() -> bool:
        before = database.figures()["log_bytes"]
        for _ in range(3):
            await database.transaction(work)
        return database.figures()["log_bytes"] == before > 0

    async with running(write_forever()):
        await eventually(stops_growing)


async def test_a_checkpoint_that_fails_is_tried_again(eager: None, tmp_path: Path) -> None:
    file = make_notes_file(tmp_path)
    log = LogFile(file)
    checkpointer = Checkpointer(log, SizeLimit(None, log))
    own = await open_connection(file, is_patient=False)
    try:
        await own.execute("INSERT INTO notes (name) VALUES ('a')")
        await own.executescript("BEGIN; SELECT * FROM notes;")  # a checkpoint is an error now
        with capture_logs() as logs:
            async with running(checkpointer.run_forever(own)):
                await eventually(lambda: len(logs) >= 2)
                assert {line["event"] for line in logs} == {"checkpoint_failed"}
                assert log.size_bytes > 0
                await own.execute("ROLLBACK")
                await eventually(lambda: log.size_bytes == 0)
    finally:
        await own.close()
