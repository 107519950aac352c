"""How the SQLite driver writes: many transactions in one commit, and no answer before it is on disk."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Touched
from bridge_server.storage import sqlite
from bridge_server.storage.database import Transaction
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import TEXT, fail_after_writing, names, put, text_of, turn
from tests.support.drivers import make_notes_file

Rider = Callable[[], Callable[[], Transaction[str]] | None]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return make_notes_file(tmp_path)


@pytest.fixture
async def database(file: Path, events: Events) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(file, events)
    async with database.opened():
        yield database


async def write_at_once(database: SqliteDatabase, count: int) -> None:
    await asyncio.gather(*(database.transaction(put(f"{number:04}", "x")) for number in range(count)))


@pytest.mark.parametrize(("count", "commits"), [(1, 1), (2, 1), (64, 1), (256, 1), (257, 2), (1_000, 4)])
async def test_transactions_that_wait_together_share_a_commit(
    database: SqliteDatabase, count: int, commits: int
) -> None:
    await write_at_once(database, count)

    figures = database.figures()
    assert (figures["transactions"], figures["commits"]) == (count, commits)


async def test_writers_who_go_on_writing_keep_sharing(database: SqliteDatabase) -> None:
    async def writer(number: int) -> None:
        for turn_number in range(20):
            await database.transaction(put(f"{number}", str(turn_number)))

    await asyncio.gather(*(writer(number) for number in range(64)))

    figures = database.figures()
    assert figures["transactions"] == 64 * 20
    assert figures["commits"] <= 64 * 20 / 8


async def test_a_writer_alone_gets_a_commit_each_time(database: SqliteDatabase) -> None:
    for number in range(10):
        await database.transaction(put("a", str(number)))

    assert database.figures()["commits"] == 10


async def test_nothing_is_announced_before_another_process_could_read_it(
    database: SqliteDatabase, file: Path, events: Events
) -> None:
    seen: list[object] = []

    def look(event: Touched) -> None:
        with closing(sqlite3.connect(file)) as other:
            seen.append(other.execute(TEXT, (event.key[1],)).fetchone())

    events.subscribe(Touched, look)
    await write_at_once(database, 20)

    assert seen == [("x",)] * 20


async def test_a_commit_that_is_refused_announces_nothing_and_stores_nothing(
    impatient: None, database: SqliteDatabase, file: Path, heard: list[Key]
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        outcomes = await asyncio.gather(
            *(database.transaction(put(name, "x")) for name in "abc"), return_exceptions=True
        )

    assert all(isinstance(outcome, UnavailableError) for outcome in outcomes)
    assert database.last_commit_failed
    assert heard == []
    assert await names(database) == []


async def test_after_a_refused_commit_the_next_one_succeeds(
    impatient: None, database: SqliteDatabase, file: Path, heard: list[Key]
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match="locked"):
            await database.transaction(put("a", "refused"))

    await database.transaction(put("a", "stored"))

    assert not database.last_commit_failed
    assert await text_of(database, "a") == "stored"
    assert heard == [("note", "a")]


async def test_a_lock_that_is_let_go_in_time_is_waited_for(database: SqliteDatabase, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        write = asyncio.ensure_future(database.transaction(put("a", "text")))
        await turn(20)
        assert not write.done()

    assert await write == "text"


async def test_reads_go_on_while_a_write_waits_for_a_lock(database: SqliteDatabase, file: Path) -> None:
    await database.transaction(put("a", "old"))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        write = asyncio.ensure_future(database.transaction(put("a", "new")))
        await turn(3)

        assert await text_of(database, "a") == "old"
        assert not write.done()

    await write
    assert await text_of(database, "a") == "new"


async def test_leaving_commits_what_is_still_queued(file: Path, events: Events) -> None:
    database = SqliteDatabase(file, events)
    async with database.opened():
        tasks = [
            asyncio.ensure_future(database.transaction(put(f"{number:03}", "x"))) for number in range(600)
        ]
        await turn(1)

    assert await asyncio.gather(*tasks) == ["x"] * 600
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (600,)


async def test_more_writes_than_may_wait_are_refused_and_the_others_are_stored(
    file: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_WAITING_WRITES_LIMIT", 10)
    database = SqliteDatabase(file, events)
    async with database.opened():
        outcomes = await asyncio.gather(
            *(database.transaction(put(f"{number:03}", "x")) for number in range(11)), return_exceptions=True
        )

        assert outcomes[:10] == ["x"] * 10
        assert isinstance(outcomes[10], UnavailableError)
        assert outcomes[10].retry_after_seconds > 0
        assert "too many writes" in outcomes[10].detail
        assert len(await names(database)) == 10
        assert await database.transaction(put("later", "text")) == "text"


async def test_the_transaction_of_a_commit_hook_is_part_of_the_next_commit(database: SqliteDatabase) -> None:
    database.add_commit_hook(lambda: put("hook", "text"))

    await database.transaction(put("a", "text"))

    assert await names(database) == ["a", "hook"]
    figures = database.figures()
    assert (figures["transactions"], figures["commits"]) == (2, 1)


async def test_a_commit_hook_is_called_before_every_commit(
    database: SqliteDatabase,
) -> None:
    trips = iter(["first", None, "third"])

    def hook() -> Callable[[], Transaction[str]] | None:
        trip = next(trips)
        return None if trip is None else put(f"hook {trip}", "text")

    database.add_commit_hook(hook)
    for name in "abc":
        await database.transaction(put(name, "text"))

    assert await names(database) == ["a", "b", "c", "hook first", "hook third"]
    assert database.figures()["transactions"] == 5


async def test_a_commit_hook_that_fails_harms_no_transaction(database: SqliteDatabase) -> None:
    database.add_commit_hook(lambda: fail_after_writing)

    assert await database.transaction(put("a", "text")) == "text"

    assert await names(database) == ["a"]


async def test_the_file_is_in_wal_mode_with_full_syncing_and_foreign_keys(database: SqliteDatabase) -> None:
    pragmas = {
        name: (await database.read(f"PRAGMA {name}"))[0][0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint")
    }

    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "wal_autocheckpoint": 0}
