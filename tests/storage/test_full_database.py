"""SQLite refuses a write halfway: the batch is undone, every caller has an error, the next batch works."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key
from bridge_server.storage.connection import passing_failure
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import fail_after_writing, names, put
from tests.support.drivers import make_notes_file
from tests.support.rows import each_row

_UNLIMITED = 2**32 - 2


@pytest.fixture
async def database(tmp_path: Path, events: Events) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(make_notes_file(tmp_path), events)
    async with database.opened():
        yield database


async def allow_pages(database: SqliteDatabase, pages: int) -> None:
    """From now on the file may have so many pages, and is full beyond them."""

    def work() -> Transaction[None]:
        yield Statement(f"PRAGMA max_page_count = {pages}")

    await database.transaction(work)


def put_much(name: str) -> Transaction[None]:
    yield Statement("INSERT INTO notes (name, data) VALUES (?, ?)", (name, bytes(200_000)))


async def test_a_full_file_refuses_what_does_not_fit_and_recovers(
    database: SqliteDatabase, heard: list[Key]
) -> None:
    await database.transaction(put("before", "text"))
    await allow_pages(database, 10)
    heard.clear()

    with pytest.raises(UnavailableError, match="full"):
        await database.transaction(lambda: put_much("large"))

    assert database.last_commit_failed
    await database.transaction(put("small", "text"))
    await allow_pages(database, _UNLIMITED)
    await database.transaction(lambda: put_much("large"))
    assert await names(database) == ["before", "large", "small"]
    assert heard == [("note", "small")]


async def test_all_transactions_of_a_commit_that_does_not_fit_fail_and_leave_nothing(
    database: SqliteDatabase, heard: list[Key]
) -> None:
    await allow_pages(database, 10)

    outcomes = await asyncio.gather(
        database.transaction(put("a", "text")),
        database.transaction(lambda: put_much("large")),
        database.transaction(put("b", "text")),
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 3
    assert await names(database) == []
    assert heard == []


async def test_a_file_that_fills_up_while_transactions_are_run_again_one_by_one(
    database: SqliteDatabase,
) -> None:
    await allow_pages(database, 10)

    outcomes = await asyncio.gather(
        database.transaction(put("a", "text")),
        database.transaction(fail_after_writing),
        database.transaction(lambda: put_much("large")),
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 3
    assert await names(database) == []
    assert await database.transaction(put("after", "text")) == "text"


@each_row(
    ("code", "reason"),
    [
        (sqlite3.SQLITE_BUSY, "locked"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "locked"),
        (sqlite3.SQLITE_LOCKED, "locked"),
        (sqlite3.SQLITE_FULL, "full"),
        (sqlite3.SQLITE_IOERR, "does not accept"),
        (sqlite3.SQLITE_IOERR_FSYNC, "does not accept"),
        (sqlite3.SQLITE_IOERR_WRITE, "does not accept"),
        (sqlite3.SQLITE_READONLY, "not writable"),
        (sqlite3.SQLITE_CANTOPEN, "cannot be opened"),
        (sqlite3.SQLITE_NOMEM, "memory"),
    ],
)
def test_a_passing_failure_is_answered_as_unavailable(code: int, reason: str) -> None:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code

    assert reason in str(passing_failure(error))


@each_row("code", [sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_CORRUPT])
def test_a_lasting_failure_is_not_answered_as_unavailable(code: int) -> None:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code

    assert passing_failure(error) is None


@each_row("error", [sqlite3.OperationalError("no code"), OSError(28, "no space"), ValueError()])
def test_an_error_without_an_sqlite_code_is_not_taken_for_one(error: Exception) -> None:
    assert passing_failure(error) is None
