"""The contract of every driver: transactions are whole, durable, and alone even where they share a commit."""

import asyncio
from collections.abc import Callable
from itertools import product

import pytest

from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Touched
from bridge_server.storage.database import Database, ForEach, Row, Statement, Transaction, Turn, Turns, Value
from tests.storage.notes import (
    EVENTS,
    PUT,
    TEXT,
    Begin,
    NoteError,
    break_a_rule_after_writing,
    break_a_rule_at_once,
    fail_after_reading,
    fail_after_writing,
    fail_at_once,
    names,
    put,
    text_of,
)

FAILING = [
    fail_at_once,
    fail_after_reading,
    fail_after_writing,
    break_a_rule_at_once,
    break_a_rule_after_writing,
]


def name_of(begin: Callable[..., object]) -> str:
    return begin.__name__


async def test_a_statement_for_each_of_many_parameters_says_how_many_rows_it_changed(
    database: Database,
) -> None:
    def work() -> Transaction[int]:
        ((changed,),) = yield ForEach(PUT, [(f"{number}", "x") for number in range(5)])
        yield Touched(("note", "0"))
        return int(changed)

    found = await asyncio.gather(*(database.transaction(work) for _ in range(3)))

    assert found == [5] * 3
    assert await names(database) == [f"{number}" for number in range(5)]


async def test_a_read_sees_every_answered_transaction(database: Database) -> None:
    for number in range(50):
        await database.transaction(put("a", f"text {number}"))

        assert await text_of(database, "a") == f"text {number}"


async def test_a_transaction_returns_its_result(database: Database) -> None:
    assert await database.transaction(put("a", "text")) == "text"


async def test_a_transaction_that_asks_for_nothing_returns_its_result(database: Database) -> None:
    def work() -> Transaction[int]:
        yield from ()
        return 7

    assert await database.transaction(work) == 7


async def test_a_transaction_is_sent_the_rows_of_what_it_asks_and_sees_its_own_changes(
    database: Database,
) -> None:
    def work() -> Transaction[list[object]]:
        before = yield Statement(TEXT, ("a",))
        written = yield Statement("INSERT INTO notes (name, text) VALUES (?, ?) RETURNING name", ("a", "x"))
        after = yield Statement(TEXT, ("a",))
        return [before, written, after]

    assert await database.transaction(work) == [[], [("a",)], [("x",)]]


@pytest.mark.parametrize(
    ("sql", "changed"),
    [
        ("UPDATE notes SET number = 1", 3),
        ("\nUPDATE notes SET number = 1 WHERE name > 'a'", 2),
        ("UPDATE notes SET number = 1 WHERE name = 'none'", 0),
        ("DELETE FROM notes", 3),
        ("DELETE FROM notes WHERE name = 'b'", 1),
        ("INSERT INTO notes (name) VALUES ('d')", 1),
        ("INSERT INTO notes (name) VALUES ('a'), ('d') ON CONFLICT (name) DO UPDATE SET text = 'x'", 2),
        ("INSERT INTO notes (name) VALUES ('a'), ('d') ON CONFLICT (name) DO NOTHING", 1),
        ("INSERT INTO notes (name) SELECT text || name FROM notes WHERE name < 'c'", 2),
        ("WITH old AS (SELECT name FROM notes) DELETE FROM notes WHERE name IN (SELECT name FROM old)", 3),
    ],
)
async def test_a_statement_without_rows_is_answered_with_how_many_it_changed(
    database: Database, sql: str, changed: int
) -> None:
    def work() -> Transaction[list[Row]]:
        return (yield Statement(sql))

    for name in "abc":
        await database.transaction(put(name, "text"))

    assert await database.transaction(work) == [(changed,)]


@pytest.mark.parametrize("value", ["", "text", "naïve 🎉", "quo'te\n\x00", None], ids=repr)
async def test_text_comes_back_as_it_was(database: Database, value: Value) -> None:
    def work() -> Transaction[None]:
        yield Statement("INSERT INTO notes (name, text) VALUES (?, ?)", ("a", value))

    await database.transaction(work)

    assert await database.read("SELECT text FROM notes") == [(value,)]


@pytest.mark.parametrize(
    "value", [b"", b"\x00\xff bytes", bytes(70_000), None], ids=["empty", "some", "many", "none"]
)
async def test_bytes_come_back_as_they_were(database: Database, value: Value) -> None:
    def work() -> Transaction[None]:
        yield Statement("INSERT INTO notes (name, data) VALUES (?, ?)", ("a", value))

    await database.transaction(work)

    assert await database.read("SELECT data FROM notes") == [(value,)]


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1, None])
async def test_numbers_come_back_as_they_were(database: Database, value: Value) -> None:
    def work() -> Transaction[None]:
        yield Statement("INSERT INTO notes (name, number) VALUES (?, ?)", ("a", value))

    await database.transaction(work)

    assert await database.read("SELECT number FROM notes") == [(value,)]


@pytest.mark.parametrize("bad", FAILING, ids=name_of)
async def test_a_transaction_that_fails_raises_why_and_changes_nothing(
    database: Database, heard: list[Key], bad: Begin
) -> None:
    await database.transaction(put("before", "text"))
    heard.clear()

    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one depends on the driver
        await database.transaction(bad)

    assert not isinstance(caught.value, NoteError) or str(caught.value) in bad.__name__.replace("_", " ")
    assert await names(database) == ["before"]
    assert await database.read(EVENTS) == [("before",)]
    assert heard == []


@pytest.mark.parametrize(
    ("bad", "place"), [*product(FAILING, [0, 1, 2])], ids=lambda value: getattr(value, "__name__", None)
)
async def test_a_failing_transaction_harms_none_that_share_its_commit(
    database: Database, heard: list[Key], bad: Begin, place: int
) -> None:
    begins = [put("a", "1"), put("b", "2")]
    begins.insert(place, bad)

    outcomes = await asyncio.gather(*map(database.transaction, begins), return_exceptions=True)

    assert isinstance(outcomes.pop(place), Exception)
    assert outcomes == ["1", "2"]
    assert await names(database) == ["a", "b"]
    assert await database.read(EVENTS) == [("a",), ("b",)]
    assert heard == [("note", "a"), ("note", "b")]


async def test_of_many_at_once_exactly_the_failing_ones_are_left_out(
    database: Database, heard: list[Key]
) -> None:
    begins = [FAILING[number % 5] if number % 3 == 0 else put(f"{number:03}", "x") for number in range(300)]

    outcomes = await asyncio.gather(*map(database.transaction, begins), return_exceptions=True)

    good = [f"{number:03}" for number in range(300) if number % 3]
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [
        number % 3 == 0 for number in range(300)
    ]
    assert await names(database) == good
    assert heard == [("note", name) for name in good]


async def test_the_database_serves_on_after_a_failure(database: Database) -> None:
    for bad in FAILING:
        with pytest.raises(Exception):  # noqa: B017, PT011 - which one depends on the driver
            await database.transaction(bad)
        await database.transaction(put(bad.__name__, "text"))

    assert len(await names(database)) == len(FAILING)


async def test_transactions_take_effect_in_the_order_in_which_they_were_asked_for(database: Database) -> None:
    await asyncio.gather(*(database.transaction(put("a", str(number))) for number in range(500)))

    assert await text_of(database, "a") == "499"


async def test_two_transactions_with_a_turn_in_common_never_change_one_state(
    database: Database,
) -> None:
    def increment() -> Transaction[int]:
        ((number,),) = yield Statement("SELECT number FROM notes WHERE name = ?", ("counter",))
        assert isinstance(number, int)
        yield Statement("UPDATE notes SET number = ? WHERE name = ?", (number + 1, "counter"))
        return number + 1

    def begin_at_zero() -> Transaction[None]:
        yield Statement("INSERT INTO notes (name, number) VALUES (?, ?)", ("counter", 0))

    await database.transaction(begin_at_zero)
    turns = Turns((Turn("counter"),))
    results = await asyncio.gather(*(database.transaction(increment, turns=turns) for _ in range(200)))

    assert sorted(results) == list(range(1, 201))


async def test_a_change_is_announced_when_others_can_read_it(database: Database, events: Events) -> None:
    reads: list[asyncio.Task[Value]] = []
    events.subscribe(
        Touched, lambda event: reads.append(asyncio.create_task(text_of(database, event.key[1])))
    )

    await asyncio.gather(*(database.transaction(put(f"note {number}", "x")) for number in range(100)))

    assert await asyncio.gather(*reads) == ["x"] * 100


async def test_an_announcement_reaches_its_waiter_before_the_writer_goes_on(
    database: Database, heard: list[Key]
) -> None:
    await database.transaction(put("a", "text"))

    assert heard == [("note", "a")]
