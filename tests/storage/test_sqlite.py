"""The SQLite driver: many transactions in one commit, a file that is full, and no thread that outlives it.

Commit hooks, failures of a disk and threads are seen at the driver alone: no client brings them about.
"""

import asyncio
import gc
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key
from bridge_server.storage.connection import passing_failure
from bridge_server.storage.database import Row, Statement, Transaction
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import TEXT, Begin, ask, fail_after_writing, names, put, text_of
from tests.support.drivers import make_notes_file
from tests.support.rows import each_row
from tests.support.waiting import eventually, locked
from tests.support.waiting import turns as turn


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return make_notes_file(tmp_path)


@pytest.fixture
async def database(file: Path, events: Events) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(file, events)
    async with database.opened():
        yield database


async def test_the_file_is_in_wal_mode_with_full_syncing_and_foreign_keys(database: SqliteDatabase) -> None:
    expected = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "wal_autocheckpoint": 0}
    assert {name: (await database.read(f"PRAGMA {name}"))[0][0] for name in expected} == expected


async def test_a_commit_that_is_refused_announces_and_stores_nothing_and_the_next_one_succeeds(
    impatient: None, database: SqliteDatabase, file: Path, heard: list[Key]
) -> None:
    with locked(file):
        outcomes = await asyncio.gather(
            *(database.transaction(put(name, "refused")) for name in "abc"), return_exceptions=True
        )
    assert all(isinstance(outcome, UnavailableError) and "locked" in str(outcome) for outcome in outcomes)
    failed = [database.last_commit_failed]
    assert heard == []
    assert await names(database) == []

    await database.transaction(put("a", "stored"))
    assert [*failed, database.last_commit_failed] == [True, False]
    assert await text_of(database, "a") == "stored"
    assert heard == [("note", "a")]


async def test_a_lock_is_waited_for_while_reads_go_on(database: SqliteDatabase, file: Path) -> None:
    await database.transaction(put("a", "old"))
    with locked(file):
        write = asyncio.ensure_future(database.transaction(put("a", "new")))
        await turn(20)
        assert await text_of(database, "a") == "old"
        assert not write.done()
    assert await write == await text_of(database, "a") == "new"


async def test_leaving_commits_what_is_still_queued(file: Path, events: Events) -> None:
    database = SqliteDatabase(file, events)
    async with database.opened():
        tasks = [asyncio.ensure_future(database.transaction(put(f"{n:03}", "x"))) for n in range(600)]
        await turn(1)
    assert await asyncio.gather(*tasks) == ["x"] * 600
    assert ask(file, "SELECT count(*) FROM notes") == [(600,)]


async def test_the_transaction_of_a_commit_hook_is_part_of_each_commit(database: SqliteDatabase) -> None:
    hooks = iter([put("hook first", "text"), None, put("hook third", "text")])
    database.add_commit_hook(lambda: next(hooks))
    for name in "abc":
        await database.transaction(put(name, "text"))
    assert await names(database) == ["a", "b", "c", "hook first", "hook third"]
    figures = database.figures()
    assert (figures["transactions"], figures["commits"]) == (5, 3)


@each_row("other", [put("b", "text"), fail_after_writing], ids=["good", "run again one by one"])
async def test_a_commit_too_large_fails(database: SqliteDatabase, heard: list[Key], other: Begin) -> None:
    def limit_pages() -> Transaction[None]:
        yield Statement("PRAGMA max_page_count = 10")

    def put_much() -> Transaction[None]:
        yield Statement("INSERT INTO notes (name, data) VALUES (?, ?)", ("large", bytes(200_000)))

    await database.transaction(limit_pages)
    begins: list[Callable[[], Transaction[Any]]] = [put("a", "text"), put_much, other]
    outcomes = await asyncio.gather(*map(database.transaction, begins), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 3
    assert await names(database) == []
    assert heard == []


@each_row(
    ("code", "reason"),
    [
        (sqlite3.SQLITE_BUSY, "locked"),
        (sqlite3.SQLITE_FULL, "full"),
        (sqlite3.SQLITE_IOERR, "does not accept"),
        (sqlite3.SQLITE_READONLY, "not writable"),
        (sqlite3.SQLITE_CANTOPEN, "cannot be opened"),
        (sqlite3.SQLITE_NOMEM, "memory"),
        *((code, None) for code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_CORRUPT)),
    ],
)
def test_a_failure_that_passes_is_told_from_a_lasting_one(code: int, reason: str | None) -> None:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    found = passing_failure(error)
    assert found is None if reason is None else reason in str(found)


async def until_as_few_threads_as(before: int) -> None:
    await eventually(lambda: threading.active_count() <= before)


async def test_leaving_ends_every_thread_after_a_failure_too(file: Path, events: Events) -> None:
    before = threading.active_count()

    async def fail_inside() -> None:
        async with SqliteDatabase(file, events).opened():
            assert threading.active_count() > 1
            raise LookupError

    async with SqliteDatabase(file, events).opened():
        pass
    await until_as_few_threads_as(before)
    with pytest.raises(LookupError):
        await fail_inside()
    await until_as_few_threads_as(before)


# aiosqlite leaves a connection whose opening is cancelled to the garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 30, 60, 100, 200, 400])
async def test_opening_and_closing_may_be_cancelled_any_time(file: Path, events: Events, turns: int) -> None:
    before = threading.active_count()

    async def open_and_write() -> None:
        database = SqliteDatabase(file, events)
        async with database.opened():
            await database.transaction(put("a", "text"))

    task = asyncio.create_task(open_and_write())
    await turn(turns)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await until_as_few_threads_as(before)
    gc.collect()

    database = SqliteDatabase(file, events)
    async with database.opened():
        assert await names(database) in ([], ["a"])
        assert await database.transaction(put("b", "text")) == "text"


@pytest.fixture
async def looking(database: SqliteDatabase) -> SqliteDatabase:
    for _ in range(20):
        database.look_up("SELECT 1", ())
    return database


async def looked_up(database: SqliteDatabase, sql: str = TEXT, *parameters: str) -> list[Row]:
    """The rows of a look-up. One that was long, on a busy machine, has the next ones left to readers."""
    found: list[list[Row]] = []

    def is_found() -> bool:
        rows = database.look_up(sql, parameters)
        found.extend([] if rows is None else [rows])
        return bool(found)

    await eventually(is_found)
    return found[0]


async def test_a_look_up_sees_every_commit_and_changes_nothing(looking: SqliteDatabase) -> None:
    for number in range(50):
        await looking.transaction(put("a", str(number)))
        assert await looked_up(looking, TEXT, "a") == [(str(number),)]
    for sql in ("DELETE FROM notes", "SELECT nonsense FROM nowhere"):
        assert looking.look_up(sql, ()) is None
    assert await text_of(looking, "a") == "49"


async def test_after_a_long_look_up_readers_have_the_next_ones(looking: SqliteDatabase) -> None:
    numbers = "(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 300000)"
    assert await looked_up(looking, f"WITH RECURSIVE numbers {numbers} SELECT count(*) FROM numbers") == [
        (300_000,)
    ]
    assert [looking.look_up("SELECT 1", ()) for _ in range(16)] == [None] * 16
    assert await looked_up(looking, "SELECT 1") == [(1,)]


def test_a_database_that_is_not_open_is_not_looked_into(tmp_path: Path) -> None:
    assert SqliteDatabase(tmp_path / "notes.db", Events()).look_up(TEXT, ("a",)) is None
