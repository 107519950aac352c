"""A status goes with its call, and there is none without one; a call may outlive its session."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Statement, Transaction, Value
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase

BELONGINGS = ("calls", "call_statuses")
A_CALL_WITH_ITS_STATUS = """
INSERT INTO calls (id, call_id, session, listed, payload, expires_at_ms) VALUES (7, 'call', 1, 1, x'22', 1);
INSERT INTO call_statuses (call, payload, expires_at_ms) VALUES (7, x'22', 1)
"""


@pytest.fixture
async def database(tmp_path: Path, events: Events) -> AsyncIterator[SqliteDatabase]:
    file = tmp_path / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, events)
    async with database.opened():
        await write(database, "INSERT INTO sessions (id, session_id, expires_at_ms) VALUES (1, 'session', 1)")
        yield database


async def write(database: SqliteDatabase, script: str) -> None:
    def work() -> Transaction[None]:
        for sql in script.split(";"):
            yield Statement(sql)

    await database.transaction(work)


async def counts(database: SqliteDatabase) -> list[Value]:
    return [(await database.read(f"SELECT count(*) FROM {table}"))[0][0] for table in BELONGINGS]


async def test_no_status_belongs_to_a_call_that_is_not_there(database: SqliteDatabase) -> None:
    _, its_status = A_CALL_WITH_ITS_STATUS.split(";")

    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        await write(database, its_status)

    assert await counts(database) == [0, 0]


async def test_a_call_takes_its_status_along_and_may_outlive_its_session(database: SqliteDatabase) -> None:
    await write(database, A_CALL_WITH_ITS_STATUS)

    await write(database, "DELETE FROM sessions")
    without_session = await counts(database)
    await write(database, "DELETE FROM calls")

    assert without_session == [1, 1]
    assert await counts(database) == [0, 0]
