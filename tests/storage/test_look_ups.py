"""Look-ups of an SQLite database: at once on the event loop's own thread, unless they would hold it up."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Row
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import TEXT, put, text_of
from tests.support.drivers import make_notes_file
from tests.support.waiting import eventually

LONG = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 300000)
SELECT count(*) FROM numbers
"""


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(make_notes_file(tmp_path), Events())
    async with database.opened():
        for _ in range(20):
            database.look_up("SELECT 1", ())
        yield database


async def looked_up(database: SqliteDatabase, sql: str = TEXT, *parameters: str) -> list[Row]:
    """The rows of a look-up. One that was long, on a busy machine, has the next ones left to readers."""
    found: list[list[Row]] = []

    async def is_found() -> bool:
        rows = database.look_up(sql, parameters)
        found.extend([] if rows is None else [rows])
        return bool(found)

    await eventually(is_found)
    return found[0]


async def test_a_look_up_sees_every_commit_that_was_answered(database: SqliteDatabase) -> None:
    for number in range(50):
        await database.transaction(put("a", str(number)))

        assert await looked_up(database, TEXT, "a") == [(str(number),)]


async def test_a_look_up_changes_nothing(database: SqliteDatabase) -> None:
    await database.transaction(put("a", "text"))

    assert database.look_up("DELETE FROM notes", ()) is None

    assert await text_of(database, "a") == "text"


async def test_after_a_long_look_up_the_next_ones_are_left_to_readers_for_a_while(
    database: SqliteDatabase,
) -> None:
    assert await looked_up(database, LONG) == [(300_000,)]

    assert [database.look_up("SELECT 1", ()) for _ in range(16)] == [None] * 16
    assert await looked_up(database, "SELECT 1") == [(1,)]


async def test_what_goes_wrong_in_a_look_up_is_left_to_a_reader(database: SqliteDatabase) -> None:
    assert database.look_up("SELECT nonsense FROM nowhere", ()) is None


def test_a_database_that_is_not_open_is_not_looked_into(tmp_path: Path) -> None:
    assert SqliteDatabase(tmp_path / "notes.db", Events()).look_up(TEXT, ("a",)) is None
