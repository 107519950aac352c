"""What belongs to something goes with it, and nothing can belong to nothing."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.signals import Signals
from bridge_server.storage.database import Statement, Transaction, Value
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase

BELONGINGS = ("calls", "pending_calls", "call_statuses")
A_CALL_WITH_ALL_THAT_BELONGS_TO_IT = """
INSERT INTO calls (id, call_id, session, payload, expires_at_ms) VALUES (7, 'call', 1, x'22', 1);
INSERT INTO pending_calls (session, call, expires_at_ms) VALUES (1, 7, 1);
INSERT INTO call_statuses (call, payload, expires_at_ms) VALUES (7, x'22', 1)
"""


@pytest.fixture
async def database(tmp_path: Path, signals: Signals) -> AsyncIterator[SqliteDatabase]:
    file = tmp_path / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, signals)
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


@pytest.mark.parametrize("sql", A_CALL_WITH_ALL_THAT_BELONGS_TO_IT.split(";"), ids=BELONGINGS)
async def test_nothing_belongs_to_what_is_not_there(database: SqliteDatabase, sql: str) -> None:
    await write(database, "DELETE FROM sessions")

    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        await write(database, sql)

    assert await counts(database) == [0, 0, 0]


async def test_a_session_takes_its_calls_and_their_statuses_along(database: SqliteDatabase) -> None:
    await write(database, A_CALL_WITH_ALL_THAT_BELONGS_TO_IT)
    assert await counts(database) == [1, 1, 1]

    await write(database, "DELETE FROM sessions")

    assert await counts(database) == [0, 0, 0]


async def test_a_call_takes_its_status_along(database: SqliteDatabase) -> None:
    await write(database, A_CALL_WITH_ALL_THAT_BELONGS_TO_IT)

    await write(database, "DELETE FROM pending_calls; DELETE FROM calls")

    assert await counts(database) == [0, 0, 0]
