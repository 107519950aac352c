"""The contract of every driver: transactions are whole, durable and alone, and reads see what was answered.

White-box: rooms reach a database through it, and meet its races only by chance.
"""

import asyncio
from functools import partial
from itertools import product
from typing import Any

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Touched
from bridge_server.storage.database import Database, ForEach, Row, Statement, Transaction, Turn, Turns, Value
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import EVENTS, FAILING, PUT, TEXT, Begin, NoteError, clear, names, put, text_of
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.waiting import turns as turn

# So many turns of the event loop after the start: before, while and after the commit is on its way.
TURNS = (0, 1, 2, 3, 4, 5, 7, 10, 15, 25, 50, 100, 200, 400, 800)
SLOW = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000000)
SELECT count(*) FROM numbers
"""


async def write_at_once(database: Database, count: int) -> list[Any]:
    writes = (database.transaction(put(f"{number:04}", "x")) for number in range(count))
    return await asyncio.gather(*writes, return_exceptions=True)


async def test_a_transaction_is_sent_rows_and_sees_its_own_changes(database: Database) -> None:
    def work() -> Transaction[list[object]]:
        before = yield Statement(TEXT, ("a",))
        written = yield Statement("INSERT INTO notes (name, text) VALUES (?, ?) RETURNING name", ("a", "x"))
        return [before, written, (yield Statement(TEXT, ("a",)))]

    assert await database.transaction(work) == [[], [("a",)], [("x",)]]


async def test_a_statement_for_many_parameters_counts_changed_rows(database: Database) -> None:
    def work() -> Transaction[int]:
        ((changed,),) = yield ForEach(PUT, [(f"{number}", "x") for number in range(5)])
        yield Touched(("note", "0"))
        return int(changed)

    assert await asyncio.gather(*(database.transaction(work) for _ in range(3))) == [5] * 3
    assert await names(database) == [f"{number}" for number in range(5)]


async def test_a_statement_without_rows_is_answered_with_how_many_it_changed(database: Database) -> None:
    def work(sql: str) -> Transaction[list[Row]]:
        return (yield Statement(sql))

    for sql, changed in (
        ("\nUPDATE notes SET number = 1 WHERE name > 'a'", 2),
        ("UPDATE notes SET number = 1 WHERE name = 'none'", 0),
        ("DELETE FROM notes", 3),
        ("INSERT INTO notes (name) VALUES ('a'), ('d') ON CONFLICT (name) DO UPDATE SET text = 'x'", 2),
        ("INSERT INTO notes (name) VALUES ('a'), ('d') ON CONFLICT (name) DO NOTHING", 1),
        ("INSERT INTO notes (name) SELECT text || name FROM notes WHERE name < 'c'", 2),
        ("WITH old AS (SELECT name FROM notes) DELETE FROM notes WHERE name IN (SELECT name FROM old)", 3),
    ):
        await clear(database)
        for name in "abc":
            await database.transaction(put(name, "text"))
        assert await database.transaction(partial(work, sql)) == [(changed,)], sql


@each_row(
    ("column", "values"),
    [
        ("text", ["", "text", "naïve 🎉", "quo'te\n\x00", None]),
        ("data", [b"", b"\x00\xff bytes", bytes(70_000), None]),
        ("number", [0, 1, 2**63 - 1, None]),
    ],
)
async def test_a_value_comes_back_as_it_was(database: Database, column: str, values: list[Value]) -> None:
    def work() -> Transaction[None]:
        for number, value in enumerate(values):
            yield Statement(f"INSERT INTO notes (name, {column}) VALUES (?, ?)", (f"{number}", value))

    await clear(database)
    await database.transaction(work)
    found = await database.read(f"SELECT {column} FROM notes ORDER BY name")
    assert found == [(value,) for value in values]


@each_row("bad", FAILING)
async def test_a_failed_transaction_changes_nothing(database: Database, heard: list[Key], bad: Begin) -> None:
    await clear(database)
    await database.transaction(put("before", "text"))
    heard.clear()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one depends on the driver
        await database.transaction(bad)

    assert not isinstance(caught.value, NoteError) or str(caught.value) in bad.__name__.replace("_", " ")
    assert await names(database) == ["before"]
    assert await database.read(EVENTS) == [("before",)]
    assert heard == []


@each_row(("bad", "place"), product(FAILING, [0, 1, 2]))
async def test_a_failure_harms_no_other(database: Database, heard: list[Key], bad: Begin, place: int) -> None:
    await clear(database)
    heard.clear()
    begins = [put("a", "1"), put("b", "2")]
    begins.insert(place, bad)
    outcomes = await asyncio.gather(*map(database.transaction, begins), return_exceptions=True)

    assert isinstance(outcomes.pop(place), Exception)
    assert outcomes == ["1", "2"]
    assert await names(database) == ["a", "b"]
    assert await database.read(EVENTS) == [("a",), ("b",)]
    assert heard == [("note", "a"), ("note", "b")]


async def test_of_many_at_once_only_failing_ones_are_left_out(database: Database, heard: list[Key]) -> None:
    begins = [FAILING[number % 5] if number % 3 == 0 else put(f"{number:03}", "x") for number in range(300)]
    outcomes = await asyncio.gather(*map(database.transaction, begins), return_exceptions=True)
    failed = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Exception)]
    good = [f"{number:03}" for number in range(300) if number % 3]
    assert failed == list(range(0, 300, 3))
    assert await names(database) == good
    assert heard == [("note", name) for name in good]


async def called(database: Database, begin: Begin) -> Any:
    """A caller, who may leave before it has begun."""
    return await database.transaction(begin)


@each_row("turns", TURNS)
async def test_a_caller_may_leave_at_any_moment(database: Database, heard: list[Key], turns: int) -> None:
    await clear(database)
    heard.clear()
    task = asyncio.create_task(called(database, put("a", "text")))
    await turn(turns)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await database.transaction(put("b", "text"))

    stored = ["a", "b"] if turns > 0 else ["b"]
    assert await names(database) == stored
    assert await database.read(EVENTS) == [(name,) for name in stored]
    assert heard == [("note", name) for name in stored]


async def test_transactions_take_effect_in_the_order_in_which_they_were_asked_for(database: Database) -> None:
    await asyncio.gather(*(database.transaction(put("a", str(number))) for number in range(500)))
    assert await text_of(database, "a") == "499"


async def test_two_transactions_with_a_turn_in_common_never_change_one_state(database: Database) -> None:
    def increment() -> Transaction[int]:
        ((number,),) = yield Statement("SELECT coalesce(number, 0) FROM notes WHERE name = ?", ("counter",))
        yield Statement("UPDATE notes SET number = ? WHERE name = ?", (number + 1, "counter"))
        return int(number + 1)

    await database.transaction(put("counter", "text"))
    turns = Turns((Turn("counter"),))
    results = await asyncio.gather(*(database.transaction(increment, turns=turns) for _ in range(200)))
    assert sorted(results) == list(range(1, 201))


@pytest.mark.parametrize("full", [0, 1, 4])
async def test_transactions_that_wait_together_share_a_commit(database: Database, full: int) -> None:
    """A commit has room for 256 transactions in a file, and for 128 in PostgreSQL."""
    count = full * (256 if isinstance(database, SqliteDatabase) else 128) + 1
    await write_at_once(database, count)

    figures = database.figures()  # type: ignore[attr-defined]
    assert (figures["transactions"], figures["commits"]) == (count, full + 1)
    assert figures.get("runs_again", 0) == 0


@pytest.fixture
def few_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten writes may wait. To be named before the database."""
    for driver in ("sqlite", "postgres.database"):
        monkeypatch.setattr(f"bridge_server.storage.{driver}._WAITING_WRITES_LIMIT", 10)


async def test_more_writes_than_may_wait_are_refused(few_may_wait: None, database: Database) -> None:
    outcomes = await write_at_once(database, 11)
    assert outcomes[:10] == ["x"] * 10
    assert isinstance(outcomes[10], UnavailableError)
    assert outcomes[10].retry_after_seconds > 0
    assert "too many writes" in outcomes[10].detail
    assert len(await names(database)) == 10
    assert await database.transaction(put("later", "text")) == "text"


async def test_a_change_is_announced_when_others_can_read_it(database: Database, events: Events) -> None:
    reads: list[asyncio.Task[Value]] = []
    events.subscribe(
        Touched, lambda event: reads.append(asyncio.create_task(text_of(database, event.key[1])))
    )
    await write_at_once(database, 100)
    assert await asyncio.gather(*reads) == ["x"] * 100


async def test_a_read_that_is_not_sql_fails_alone(database: Database) -> None:
    statements = ("SELECT 1", "SELECT nonsense FROM nowhere", "SELECT 2")
    before, wrong, after = await asyncio.gather(*map(database.read, statements), return_exceptions=True)
    assert isinstance(wrong, Exception)
    assert (before, after) == ([(1,)], [(2,)])


async def test_reads_begun_before_a_commit_keep_no_later_ones_in_the_past(database: Database) -> None:
    for number in range(40):
        earlier = [asyncio.create_task(text_of(database, "a")) for _ in range(100)]
        await turn(number % 5)
        await database.transaction(put("a", str(number)))
        assert await asyncio.gather(*(text_of(database, "a") for _ in range(100))) == [str(number)] * 100
        await asyncio.gather(*earlier)


async def test_a_slow_read_holds_up_neither_reads_nor_writes(database: Database) -> None:
    slow = asyncio.ensure_future(database.read(SLOW))
    await turn(3)
    for number in range(5):
        await database.transaction(put("a", str(number)))
        assert await text_of(database, "a") == str(number)
    assert not slow.done()
    assert await slow == [(3_000_000,)]


async def test_a_reader_does_not_see_half_of_a_transaction(database: Database) -> None:
    async def write() -> None:
        for number in range(100):
            await database.transaction(put(f"{number}", "x"))

    writing = asyncio.create_task(write())
    while not writing.done():
        counts = "SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM events)"
        ((notes, events),) = await database.read(counts)
        assert notes == events
    await writing


@each_row("turns", TURNS)
async def test_reads_may_be_left_at_any_moment(database: Database, turns: int) -> None:
    await database.transaction(put("a", "text"))
    tasks = [asyncio.create_task(text_of(database, "a")) for _ in range(200)]
    await turn(turns)
    for task in tasks[::2]:
        task.cancel()
    assert (await asyncio.gather(*tasks, return_exceptions=True))[1::2] == ["text"] * 100
    assert await asyncio.gather(*(text_of(database, "a") for _ in range(200))) == ["text"] * 200


async def test_a_database_is_busy_while_it_writes_or_reads(database: Database) -> None:
    def is_idle() -> bool:
        return not database.is_busy

    assert is_idle()
    for work in (called(database, put("a", "text")), text_of(database, "a")):
        under_way = asyncio.create_task(work)
        await turn(2)
        assert database.is_busy
        await under_way
        await eventually(is_idle)
