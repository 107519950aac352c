"""Work in a connection's thread: any function of the connection, in one hop."""

import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import pytest

from bridge_server.storage.connection import open_connection, run


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[aiosqlite.Connection]:
    connection = await open_connection(tmp_path / "file.db")
    yield connection
    await connection.close()


async def test_work_has_the_connection_and_its_result_is_returned(connection: aiosqlite.Connection) -> None:
    def count(raw: sqlite3.Connection) -> int:
        raw.execute("CREATE TABLE a (b)")
        raw.execute("INSERT INTO a VALUES (1), (2)")
        return len(raw.execute("SELECT b FROM a").fetchall())

    assert await run(connection, count) == 2
    assert await run(connection, lambda raw: raw.in_transaction) is False


async def test_all_work_is_done_in_one_thread_that_is_not_the_callers(
    connection: aiosqlite.Connection,
) -> None:
    first, second = [await run(connection, lambda _: threading.get_ident()) for _ in range(2)]

    assert first == second != threading.get_ident()


async def test_an_error_of_the_work_is_raised_and_the_connection_works_on(
    connection: aiosqlite.Connection,
) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await run(connection, lambda raw: raw.execute("SELECT * FROM nowhere"))

    assert await run(connection, lambda raw: raw.execute("SELECT 1").fetchall()) == [(1,)]


async def test_statements_are_not_traced(connection: aiosqlite.Connection) -> None:
    seen: list[object] = []

    await run(connection, seen.append)
    await run(connection, lambda raw: raw.execute("SELECT 1").fetchall())

    assert len(seen) == 1
