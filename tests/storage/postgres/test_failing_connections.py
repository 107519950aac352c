"""A lane when the database or the way to it fails: no answer is a guess.

The driver is asked itself: no client can break a connection before its COMMIT or after it.
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
from tests.support.postgres import connected, needs_postgres
from tests.support.proxies import CuttingProxy, open_cutting_proxy
from tests.support.rows import each_row
from tests.support.waiting import eventually

pytestmark = needs_postgres

END_ALL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
WAITING = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
RAISE_ERROR = """
CREATE OR REPLACE FUNCTION raise_error(code text) RETURNS int LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'ordered' USING ERRCODE = code; END $$
"""
WRITTEN = "SELECT written FROM processes WHERE lane = 0"


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[CuttingProxy]:
    async with open_cutting_proxy(url) as proxy:
        yield proxy


@asynccontextmanager
async def opened(
    proxy: CuttingProxy, events: Events, direct_url: str | None
) -> AsyncIterator[PostgresDatabase]:
    """The database, which is reached by the proxy; with a direct URL the proxy is a pooler.

    Behind a pooler the server's processes cannot be ended by their ids.
    """
    database = PostgresDatabase(proxy.url, events, {}, direct_url=direct_url)
    async with database.opened():
        yield database


@pytest.fixture
async def behind_proxy(proxy: CuttingProxy, events: Events) -> AsyncIterator[PostgresDatabase]:
    async with opened(proxy, events, None) as database:
        yield database


@pytest.fixture
async def behind_pooler(proxy: CuttingProxy, url: str, events: Events) -> AsyncIterator[PostgresDatabase]:
    async with opened(proxy, events, url) as database:
        yield database


@pytest.fixture(params=[False, True], ids=["proxy", "pooler"])
async def behind_either(
    request: pytest.FixtureRequest, proxy: CuttingProxy, url: str, events: Events
) -> AsyncIterator[PostgresDatabase]:
    async with opened(proxy, events, url if request.param else None) as database:
        yield database


@pytest.fixture
def short_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on statements sooner: a read has no transaction whose statements alone could be given up.

    To be named before the database.
    """
    monkeypatch.setitem(connection._SETTINGS, "statement_timeout", "3s")


async def serves_again(database: PostgresDatabase) -> None:
    """Wait until it has its connections again."""

    await eventually(lambda: not database.troubles)


async def are_sleeping(other: Any) -> bool:
    """Whether two statements that sleep are under way."""
    found = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    )
    return bool(await other.fetchval(found) == 2)


async def write_and_read(database: PostgresDatabase) -> None:
    """Write and read as soon as it can be done: a connection that was ended may be noticed late."""

    async def is_written_and_read() -> bool:
        with suppress(UnavailableError):
            written = await database.transaction(put("after", "text"))
            return written == await text_of(database, "after") == "text"
        return False

    await eventually(is_written_and_read)
    await serves_again(database)
    assert not database.last_commit_failed


async def test_transactions_under_way_when_the_connection_ends_are_refused_and_not_stored(
    database: PostgresDatabase, url: str, heard: list[Key]
) -> None:
    def work() -> Transaction[None]:
        yield from put("a", "text")()
        yield Statement("SELECT pg_sleep(10)")

    writing = asyncio.create_task(database.transaction(work))
    other_writing = asyncio.create_task(database.transaction(put("b", "text")))
    reading = asyncio.create_task(database.read("SELECT count(pg_sleep(10))"))
    async with connected(url) as other:
        await eventually(lambda: are_sleeping(other))
        await other.execute(END_ALL)
    outcomes = await asyncio.gather(writing, other_writing, return_exceptions=True)
    with pytest.raises(UnavailableError):
        await reading

    assert all(isinstance(outcome, UnavailableError) for outcome in outcomes)
    assert all("Nothing was stored" in str(outcome) for outcome in outcomes)
    assert [outcome.retry_after_seconds for outcome in outcomes if isinstance(outcome, UnavailableError)] == [
        2,
        2,
    ]
    assert database.last_commit_failed
    assert heard == []
    await write_and_read(database)
    assert await names(database) == ["after"]


async def test_a_commit_that_never_arrived_is_refused_and_not_stored(
    behind_either: PostgresDatabase, proxy: CuttingProxy, heard: list[Key]
) -> None:
    proxy.cut_before(b"COMMIT")

    with pytest.raises(UnavailableError, match="Nothing was stored"):
        await behind_either.transaction(put("a", "text"))

    assert proxy.cuts == 1
    await write_and_read(behind_either)
    assert await names(behind_either) == ["after"]
    assert set(heard) == {("note", "after")}


async def test_a_commit_whose_answer_was_lost_is_answered_as_stored(
    behind_either: PostgresDatabase, proxy: CuttingProxy, heard: list[Key]
) -> None:
    proxy.cut_answer(b"COMMIT")

    assert await behind_either.transaction(put("a", "text")) == "text"

    assert proxy.cuts == 1
    assert heard == [("note", "a")]
    await write_and_read(behind_either)
    assert await names(behind_either) == ["a", "after"]


async def test_a_commit_that_was_given_up_fails_when_it_arrives_late(
    behind_pooler: PostgresDatabase, proxy: CuttingProxy, url: str
) -> None:
    proxy.keep(b"COMMIT")

    with pytest.raises(UnavailableError, match="Nothing was stored"):
        await behind_pooler.transaction(put("late", "text"))
    await proxy.release()

    async with connected(url) as other:
        active = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'"
        )

        async def is_over() -> bool:
            return not await other.fetchval(active)

        await eventually(is_over)
    assert await names(behind_pooler) == []
    await write_and_read(behind_pooler)


async def test_a_database_that_stays_away_during_a_commit_leaves_the_outcome_open(
    behind_proxy: PostgresDatabase, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.postgres.group_commit._OUTCOME_SECONDS", 0.3)
    proxy.cut_answer(b"COMMIT")
    proxy.is_refusing = True

    with pytest.raises(UnavailableError, match="may have been stored"):
        await behind_proxy.transaction(put("a", "text"))

    proxy.is_refusing = False
    await write_and_read(behind_proxy)


async def test_a_row_that_was_removed_comes_back_with_the_next_commit(
    database: PostgresDatabase, url: str
) -> None:
    await database.transaction(put("a", "text"))
    async with connected(url) as other:
        await other.execute("DELETE FROM processes")

    await database.transaction(put("b", "text"))

    assert await database.read(WRITTEN) == [(2,)]


async def test_a_turn_that_another_process_has_for_long_is_refused(
    short_lock_waits: None, database: PostgresDatabase, url: str
) -> None:
    turn = Turn("thing", "1")
    async with connected(url) as other:
        await other.execute("SELECT pg_advisory_lock($1)", lock_key(turn))

        with pytest.raises(UnavailableError, match="another process holds a lock"):
            await database.transaction(put("a", "text"), turns=Turns((turn,)))

        assert await database.transaction(put("b", "text"), turns=Turns((Turn("thing", "2"),))) == "text"
        await other.execute("SELECT pg_advisory_unlock($1)", lock_key(turn))
        assert await database.transaction(put("a", "text"), turns=Turns((turn,))) == "text"


async def test_a_statement_that_takes_too_long_is_refused(
    short_statements: None, database: PostgresDatabase
) -> None:
    def work() -> Transaction[None]:
        yield from put("a", "text")()
        yield Statement("SELECT pg_sleep(10)")

    with pytest.raises(UnavailableError, match="took too long"):
        await database.transaction(work)
    with pytest.raises(UnavailableError, match="took too long"):
        await database.read("SELECT count(pg_sleep(10))")

    assert database.last_commit_failed
    assert await names(database) == []
    await write_and_read(database)


async def test_the_loser_of_a_race_is_run_again_and_finds_what_the_winner_wrote(
    database: PostgresDatabase, url: str
) -> None:
    def add_unless_there() -> Transaction[str]:
        found = yield Statement("SELECT text FROM notes WHERE name = ?", ("a",))
        if found:
            return str(found[0][0])
        yield Statement("INSERT INTO notes (name, text) VALUES (?, ?)", ("a", "ours"))
        return "ours"

    async with connected(url) as other, other.transaction():
        await other.execute("INSERT INTO notes (name, text) VALUES ('a', 'theirs')")
        adding = asyncio.create_task(database.transaction(add_unless_there))
        await eventually(lambda: waits_for_lock(database))

    assert await adding == "theirs"
    assert database.figures()["runs_again"] == 1


async def waits_for_lock(database: PostgresDatabase) -> bool:
    return bool(await database.read(WAITING))


async def test_a_batch_with_more_turns_than_the_server_has_locks_for_is_run_in_halves(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's error is real, and its table of locks is not filled: other tests use it."""
    monkeypatch.setattr("bridge_server.storage.postgres.group_commit.trying", beginning_of_few)

    outcomes = await asyncio.gather(*(database.transaction(put(f"{n:02}", "x")) for n in range(32)))

    assert outcomes == ["x"] * 32
    figures = database.figures()
    assert (figures["commits"], figures["runs_again"]) == (8, 7)
    assert not database.last_commit_failed


def beginning_of_few(jobs: Iterable[Turns]) -> str:
    """Refused for more than four transactions as a full table of locks refuses it."""
    refusal = "DO $$ BEGIN RAISE EXCEPTION 'out of shared memory' USING ERRCODE = '53200'; END $$"
    return f"BEGIN; {refusal}" if len(list(jobs)) > 4 else "BEGIN"


@each_row(
    ("code", "tries"),
    [
        *((code, 4) for code in ("40001", "40P01", "23503")),
        *((code, 1) for code in ("53100", "53300", "57P03", "58030", "08006")),
    ],
)
async def test_a_transaction_that_lost_a_race_is_tried_again_and_one_that_the_server_refuses_is_not(
    database: PostgresDatabase, code: str, tries: int
) -> None:
    tried = 0

    def work() -> Transaction[None]:
        nonlocal tried
        tried += 1
        yield from put("a", "text")()
        yield Statement(f"SELECT raise_error('{code}')")

    async with connected(database.url) as other:
        await other.execute(RAISE_ERROR)

    with pytest.raises((asyncpg.PostgresError, UnavailableError)) as caught:
        await database.transaction(work)

    if isinstance(caught.value, UnavailableError):
        assert (tries, "Nothing was stored" in caught.value.detail) == (1, True)
        assert database.last_commit_failed
    else:
        assert (tries, caught.value.sqlstate) == (4, code)
    assert tried == tries
    assert await names(database) == []


async def test_a_statement_prepared_before_a_migration_is_prepared_anew(
    database: PostgresDatabase, url: str
) -> None:
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
