"""A lane when the database or the way to it fails: no answer is a guess.

White-box: no client can break a connection before its COMMIT or after it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key
from bridge_server.storage.database import Statement, Transaction, Turn, Turns
from bridge_server.storage.postgres import connection
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.group_commit import lock_key
from tests.storage.notes import names, put, text_of
from tests.support.postgres import connected
from tests.support.proxies import CuttingProxy
from tests.support.waiting import eventually

WAITING = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@asynccontextmanager
async def opened(url: str, events: Events, direct_url: str | None = None) -> AsyncIterator[PostgresDatabase]:
    """The database behind a proxy; with a direct URL it is a pooler, whose processes have no known ids."""
    database = PostgresDatabase(url, events, {}, direct_url=direct_url)
    async with database.opened():
        yield database


@pytest.fixture(params=["proxy", "pooler"])
async def behind_either(
    request: pytest.FixtureRequest, proxy: CuttingProxy, url: str, events: Events
) -> AsyncIterator[PostgresDatabase]:
    async with opened(proxy.url, events, url if request.param == "pooler" else None) as database:
        yield database


async def write_and_read(database: PostgresDatabase) -> None:
    """Write and read as soon as it can be done: a connection that was ended may be noticed late."""

    async def is_written_and_read() -> bool:
        with suppress(UnavailableError):
            written = await database.transaction(put("after", "text"))
            return written == await text_of(database, "after") == "text"
        return False

    await eventually(is_written_and_read)
    await eventually(lambda: not database.troubles)
    assert not database.last_commit_failed


async def test_cut_off_writes_are_refused(database: PostgresDatabase, url: str, heard: list[Key]) -> None:
    def work() -> Transaction[None]:
        yield from put("a", "text")()
        yield Statement("SELECT pg_sleep(10)")

    under_way = [
        asyncio.create_task(database.transaction(work)),
        asyncio.create_task(database.transaction(put("b", "text"))),
        asyncio.create_task(database.read("SELECT count(pg_sleep(10))")),
    ]
    async with connected(url) as other:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

        async def are_sleeping() -> bool:
            sleeping = await other.fetchval(f"SELECT count(*) {others} AND wait_event = 'PgSleep'")
            return bool(sleeping == 2)

        await eventually(are_sleeping)
        await other.execute(f"SELECT count(pg_terminate_backend(pid)) {others}")
    outcomes: list[Any] = await asyncio.gather(*under_way, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 3
    assert all("Nothing was stored" in str(outcome) for outcome in outcomes[:2])
    assert [outcome.retry_after_seconds for outcome in outcomes[:2]] == [2, 2]
    assert database.last_commit_failed
    assert heard == []
    await write_and_read(database)
    assert await names(database) == ["after"]


async def test_lost_commits_and_answers(
    behind_either: PostgresDatabase, proxy: CuttingProxy, heard: list[Key]
) -> None:
    proxy.cut_before(b"COMMIT")
    with pytest.raises(UnavailableError, match="Nothing was stored"):
        await behind_either.transaction(put("a", "text"))

    assert proxy.cuts == 1
    await write_and_read(behind_either)
    assert await names(behind_either) == ["after"]
    assert set(heard) == {("note", "after")}

    heard.clear()
    proxy.cut_answer(b"COMMIT")
    assert await behind_either.transaction(put("b", "text")) == "text"

    assert proxy.cuts == 2
    assert heard == [("note", "b")]
    await write_and_read(behind_either)
    assert await names(behind_either) == ["after", "b"]


async def test_a_late_commit_fails(proxy: CuttingProxy, url: str, events: Events) -> None:
    async with opened(proxy.url, events, url) as database, connected(url) as other:

        async def is_over() -> bool:
            return not await other.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND state = 'idle in transaction'"
            )

        proxy.keep(b"COMMIT")
        with pytest.raises(UnavailableError, match="Nothing was stored"):
            await database.transaction(put("late", "text"))
        await proxy.release()
        await eventually(is_over)
        assert await names(database) == []
        await write_and_read(database)


async def test_a_database_that_stays_away_during_a_commit_leaves_the_outcome_open(
    proxy: CuttingProxy, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.postgres.group_commit._OUTCOME_SECONDS", 0.3)
    async with opened(proxy.url, events) as database:
        proxy.cut_answer(b"COMMIT")
        proxy.is_refusing = True
        with pytest.raises(UnavailableError, match="may have been stored"):
            await database.transaction(put("a", "text"))
        proxy.is_refusing = False
        await write_and_read(database)


async def test_a_removed_row_comes_back_with_the_next_commit(database: PostgresDatabase, url: str) -> None:
    await database.transaction(put("a", "text"))
    async with connected(url) as other:
        await other.execute("DELETE FROM processes")
    await database.transaction(put("b", "text"))
    assert await database.read("SELECT written FROM processes WHERE lane = 0") == [(2,)]


async def test_a_turn_held_elsewhere(short_lock_waits: None, database: PostgresDatabase, url: str) -> None:
    turn = Turn("thing", "1")
    async with connected(url) as other:
        await other.execute("SELECT pg_advisory_lock($1)", lock_key(turn))

        with pytest.raises(UnavailableError, match="another process holds a lock"):
            await database.transaction(put("a", "text"), turns=Turns((turn,)))

        assert await database.transaction(put("b", "text"), turns=Turns((Turn("thing", "2"),))) == "text"
        await other.execute("SELECT pg_advisory_unlock($1)", lock_key(turn))
        assert await database.transaction(put("a", "text"), turns=Turns((turn,))) == "text"


async def test_slow_statements_are_refused(monkeypatch: pytest.MonkeyPatch, url: str, events: Events) -> None:
    def work() -> Transaction[None]:
        yield from put("a", "text")()
        yield Statement("SELECT pg_sleep(10)")

    # A read has no transaction whose statements alone could be given up.
    monkeypatch.setitem(connection._SETTINGS, "statement_timeout", "3s")
    async with opened(url, events) as database:
        for slow in (database.transaction(work), database.read("SELECT count(pg_sleep(10))")):
            with pytest.raises(UnavailableError, match="took too long"):
                await slow

        assert database.last_commit_failed
        assert await names(database) == []
        await write_and_read(database)


async def test_the_loser_of_a_race_finds_what_the_winner_wrote(database: PostgresDatabase, url: str) -> None:
    def add_unless_there() -> Transaction[str]:
        found = yield Statement("SELECT text FROM notes WHERE name = ?", ("a",))
        if found:
            return str(found[0][0])
        yield Statement("INSERT INTO notes (name, text) VALUES (?, ?)", ("a", "ours"))
        return "ours"

    async def waits_for_lock() -> bool:
        return bool(await database.read(WAITING))

    async with connected(url) as other, other.transaction():
        await other.execute("INSERT INTO notes (name, text) VALUES ('a', 'theirs')")
        adding = asyncio.create_task(database.transaction(add_unless_there))
        await eventually(waits_for_lock)

    assert await adding == "theirs"
    assert database.figures()["runs_again"] == 1


async def test_a_batch_without_locks(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's error is real, and its table of locks is not filled: other tests use it."""

    def beginning_of_few(jobs: Iterable[Turns]) -> str:
        refusal = "DO $$ BEGIN RAISE EXCEPTION 'out of shared memory' USING ERRCODE = '53200'; END $$"
        return f"BEGIN; {refusal}" if len(list(jobs)) > 4 else "BEGIN"

    monkeypatch.setattr("bridge_server.storage.postgres.group_commit.trying", beginning_of_few)
    outcomes = await asyncio.gather(*(database.transaction(put(f"{n:02}", "x")) for n in range(32)))

    assert outcomes == ["x"] * 32
    figures = database.figures()
    assert (figures["commits"], figures["runs_again"]) == (8, 7)
    assert not database.last_commit_failed


async def test_lost_races_are_tried_again_and_refusals_are_not(database: PostgresDatabase) -> None:
    async with connected(database.url) as other:
        await other.execute(
            "CREATE OR REPLACE FUNCTION raise_error(code text) RETURNS int LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'ordered' USING ERRCODE = code; END $$"
        )
    lost, refused = ("40001", "40P01", "23503"), ("53100", "53300", "57P03", "58030", "08006")
    for code in (*lost, *refused):
        tried = list[int]()

        def work(code: str = code, tried: list[int] = tried) -> Transaction[None]:
            tried.append(1)
            yield from put("a", "text")()
            yield Statement(f"SELECT raise_error('{code}')")

        with pytest.raises((asyncpg.PostgresError, UnavailableError)) as caught:
            await database.transaction(work)
        if code in lost:
            assert (len(tried), getattr(caught.value, "sqlstate", None)) == (4, code)
        else:
            assert (len(tried), "Nothing was stored" in str(caught.value)) == (1, True), code
            assert database.last_commit_failed
    assert await names(database) == []


async def test_a_statement_is_prepared_anew_after_a_migration(database: PostgresDatabase, url: str) -> None:
    everything = "SELECT * FROM events"

    def work() -> Transaction[list[tuple[object, ...]]]:
        return (yield Statement(everything))

    await database.read(everything)
    await database.transaction(work)
    async with connected(url) as other:
        await other.execute("ALTER TABLE events ADD COLUMN more TEXT")
        try:
            await other.execute("INSERT INTO events (name, more) VALUES ('a', 'b')")
            assert await database.read(everything) == [(1, "a", "b")]
            assert await database.transaction(work) == [(1, "a", "b")]
        finally:
            await other.execute("ALTER TABLE events DROP COLUMN more")
