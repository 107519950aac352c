"""Opening and closing the SQLite driver: no thread outlives it, whatever happens on the way."""

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage import connection, group_commit, sqlite
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import names, put, text_of, turn
from tests.support.drivers import make_notes_file
from tests.support.eventually import eventually


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return make_notes_file(tmp_path)


@pytest.fixture
def threads_are_gone() -> Callable[[], Any]:
    """Waits until there are as few threads as before."""
    before = threading.active_count()

    async def as_few() -> bool:
        return threading.active_count() <= before

    return lambda: eventually(as_few)


async def test_closing_ends_every_thread(
    file: Path, events: Events, threads_are_gone: Callable[[], Any]
) -> None:
    async with SqliteDatabase(file, events).opened():
        assert threading.active_count() > 1

    await threads_are_gone()


async def test_a_failure_inside_ends_every_thread(
    file: Path, events: Events, threads_are_gone: Callable[[], Any]
) -> None:
    async def fail_inside() -> None:
        async with SqliteDatabase(file, events).opened():
            raise LookupError

    with pytest.raises(LookupError):
        await fail_inside()

    await threads_are_gone()


@pytest.mark.parametrize("refused", ["PRAGMA nonsense syntax", "SELECT * FROM nowhere"])
async def test_a_connection_that_cannot_be_prepared_ends_its_thread(
    file: Path, threads_are_gone: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    monkeypatch.setattr(connection, "_PRAGMAS", refused)

    with pytest.raises(sqlite3.Error):
        await connection.open_connection(file)

    await threads_are_gone()


async def test_a_file_that_cannot_be_opened_leaves_no_thread(
    tmp_path: Path, events: Events, threads_are_gone: Callable[[], Any]
) -> None:
    with pytest.raises(sqlite3.OperationalError):
        async with SqliteDatabase(tmp_path, events).opened():
            pass

    await threads_are_gone()


# aiosqlite leaves a connection whose opening is cancelled to the garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 30, 60, 100, 200, 400])
async def test_opening_and_closing_may_be_cancelled_at_any_moment(
    file: Path, events: Events, threads_are_gone: Callable[[], Any], turns: int
) -> None:
    async def open_and_write() -> None:
        database = SqliteDatabase(file, events)
        async with database.opened():
            await database.transaction(put("a", "text"))

    task = asyncio.create_task(open_and_write())
    await turn(turns)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    await threads_are_gone()
    gc.collect()
    database = SqliteDatabase(file, events)
    async with database.opened():
        assert await names(database) in ([], ["a"])
        assert await database.transaction(put("b", "text")) == "text"


async def test_when_the_thread_of_a_connection_fails_every_caller_is_answered(
    file: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: aiosqlite.Connection, __: Callable[[sqlite3.Connection], object]) -> object:
        raise RuntimeError("the thread is gone")

    database = SqliteDatabase(file, events)
    async with database.opened():
        with monkeypatch.context() as patch:
            patch.setattr(group_commit, "run", broken)
            patch.setattr(sqlite, "run", broken)
            outcomes = await asyncio.gather(
                *(database.transaction(put("a", "lost")) for _ in range(3)),
                *(text_of(database, "a") for _ in range(100)),
                return_exceptions=True,
            )

        assert [type(outcome) for outcome in outcomes] == [RuntimeError] * 103
        assert await database.transaction(put("a", "text")) == "text"
        assert await text_of(database, "a") == "text"
