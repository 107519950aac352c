"""How the PostgreSQL driver writes: many transactions in one commit, and no answer before it is durable.

The driver is asked itself: what shares a commit is seen in its figures alone.
"""

import asyncio
from functools import partial

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.kernel.signals import Key, Touched
from bridge_server.storage.database import Row, Statement, Transaction, Turn, Turns
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.group_commit import lock_key
from tests.storage.notes import TEXT, clear, names, put, text_of
from tests.support.postgres import connected
from tests.support.waiting import turns as turn


async def test_a_turn_that_many_want_or_another_process_has_keeps_no_other_transaction_waiting(
    database: PostgresDatabase, url: str, heard: list[Key]
) -> None:
    busy, free = Turns((Turn("thing", "1"),)), Turns((Turn("thing", "2"),))
    shared = Turns(shared=(Turn("all"),))
    hot = [database.transaction(put(f"hot {n}", "x"), turns=busy) for n in range(40)]
    await asyncio.gather(*hot, database.transaction(put("cold", "x")))
    assert heard.index(("note", "cold")) == 16

    await clear(database)
    async with connected(url) as other:
        for turn in (*busy.exclusive, *shared.shared):
            await other.execute(f"SELECT pg_advisory_lock({lock_key(turn)})")
        blocked = [
            asyncio.ensure_future(database.transaction(put(name, "x"), turns=turns))
            for name, turns in (("alone", busy), ("sharing", shared))
        ]
        beside = database.transaction(put("beside", "x"), turns=free)
        await asyncio.gather(beside, database.transaction(put("later", "x")))

        assert not any(each.done() for each in blocked)
        assert await names(database) == ["beside", "later"]
    await asyncio.gather(*blocked)
    assert await names(database) == ["alone", "beside", "later", "sharing"]


async def test_an_exception_of_a_transaction_reaches_its_caller_as_it_is(database: PostgresDatabase) -> None:
    def work() -> Transaction[None]:
        yield from put("a", "x")()
        raise ConnectionResetError("not the database's")

    with pytest.raises(ConnectionResetError):
        await database.transaction(work)

    assert not database.last_commit_failed


async def test_commits_are_handed_on_after_their_events(database: PostgresDatabase, heard: list[Key]) -> None:
    commits: list[tuple[int, int, list[DomainEvent], int]] = []

    def fail(*_: object) -> None:
        raise RuntimeError

    def look() -> Transaction[list[Row]]:
        return (yield Statement(TEXT, ("a",)))

    database.add_commit_listener(fail)
    database.add_commit_listener(
        lambda lane, written, events: commits.append((lane, written, list(events), len(heard)))
    )
    await asyncio.gather(*(database.transaction(put(name, "x")) for name in "ab"))
    await database.transaction(put("c", "x"), turns=Turns((Turn("project", "p"),)))
    await database.transaction(look)

    touched = [Touched(("note", name)) for name in "abc"]
    assert commits == [(0, 1, touched[:2], 2), (1, 1, touched[2:], 3)]


async def test_many_executions_of_one_statement_get_their_own_rows(database: PostgresDatabase) -> None:
    def work(name: str) -> Transaction[list[object]]:
        found = yield Statement("SELECT text, number FROM notes WHERE name < ? ORDER BY name DESC", (name,))
        added = yield Statement(
            "INSERT INTO notes (name, number) VALUES (?, ?) RETURNING number, name", (name, 7)
        )
        changed = yield Statement("UPDATE notes SET text = ? WHERE name = ?", ("new\0", name))
        gone = yield Statement("DELETE FROM notes WHERE name = ? AND text IS NULL", (name,))
        return [len(found), added, changed, gone, (yield Statement(TEXT, (name,)))]

    await database.transaction(put("a", "\0"))
    names_of_many = [f"b{number}" for number in range(5)]
    outcomes = await asyncio.gather(*(database.transaction(partial(work, name)) for name in names_of_many))

    assert outcomes == [[1, [(7, name)], [(1,)], [(0,)], [("new\0",)]] for name in names_of_many]
    assert database.figures()["commits"] == 2


async def test_a_read_that_the_database_refuses_fails_alone(database: PostgresDatabase) -> None:
    await database.transaction(put("a", "text"))
    by_number = "SELECT name FROM notes WHERE coalesce(number, 0) = ?"

    outcomes = await asyncio.gather(
        *(database.read(by_number, (value,)) for value in (0, "no number", 1, 2**70, 0)),
        database.read("INSERT INTO notes (name) VALUES ('b')"),
        return_exceptions=True,
    )

    assert [outcomes[place] for place in (0, 2, 4)] == [[("a",)], [], [("a",)]]
    assert all(isinstance(outcomes[place], Exception) for place in (1, 3))
    assert isinstance(outcomes[5], UnavailableError)
    assert "takes no writes" in str(outcomes[5])


async def test_heavy_reads_leave_connections_to_the_others(url: str, events: Events) -> None:
    heavy = "SELECT count(pg_advisory_xact_lock_shared(1)), ?::bigint"
    database = PostgresDatabase(url, events, {}, heavy=[heavy])
    async with database.opened():
        async with connected(url) as other:
            await other.execute("SELECT pg_advisory_lock(1)")
            reads = [asyncio.create_task(database.read(heavy, (number,))) for number in range(4)]
            await turn(3)

            for _ in range(5):
                assert await text_of(database, "a") is None

            assert not reads[0].done()
        assert [rows[0][1] for rows in await asyncio.gather(*reads)] == [0, 1, 2, 3]
