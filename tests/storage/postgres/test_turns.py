"""Transactions of several processes that have a turn in common follow each other; others do not wait."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Statement, Transaction, Turn, Turns
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.group_commit import beginning, lock_key
from tests.support.drivers import notes_url
from tests.support.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

NUMBER = "SELECT number FROM notes WHERE name = ?"
SET = (
    "INSERT INTO notes (name, number) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET number = excluded.number"
)


@pytest.fixture(scope="module")
async def two(postgres: PostgresServer) -> AsyncIterator[list[PostgresDatabase]]:
    """Two processes on one database."""
    url = await notes_url(postgres)
    async with AsyncExitStack() as stack:
        databases = [PostgresDatabase(url, Events(), {}) for _ in range(2)]
        for database in databases:
            await stack.enter_async_context(database.opened())
        yield databases


def add(name: str, amount: int) -> Callable[[], Transaction[int]]:
    """Read a number and write a larger one, which is right only if nobody writes in between."""

    def work() -> Transaction[int]:
        rows = yield Statement(NUMBER, (name,))
        number = (rows[0][0] if rows else 0) + amount
        yield Statement(SET, (name, number))
        return number

    return work


def move(source: str, target: str, amount: int) -> Callable[[], Transaction[bool]]:
    """Move an amount if it is there."""

    def work() -> Transaction[bool]:
        rows = yield Statement(NUMBER, (source,))
        if not rows or rows[0][0] < amount:
            return False
        yield Statement(SET, (source, rows[0][0] - amount))
        rows = yield Statement(NUMBER, (target,))
        yield Statement(SET, (target, (rows[0][0] if rows else 0) + amount))
        return True

    return work


def sum_of(names: str) -> Callable[[], Transaction[int]]:
    """Add up numbers one after another, which is right only if nobody writes in between."""

    def work() -> Transaction[int]:
        total = 0
        for name in names:
            rows = yield Statement(NUMBER, (name,))
            total += rows[0][0] if rows else 0
        return total

    return work


async def clear(database: PostgresDatabase) -> None:
    def work() -> Transaction[None]:
        yield Statement("DELETE FROM notes")

    await database.transaction(work)


async def test_many_increments_by_two_processes_are_all_there(two: list[PostgresDatabase]) -> None:
    await clear(two[0])
    turns = Turns((Turn("note", "a"),))

    results = await asyncio.gather(
        *(two[number % 2].transaction(add("a", 1), turns=turns) for number in range(200))
    )

    assert sorted(results) == list(range(1, 201))
    assert [database.figures()["runs_again"] for database in two] == [0, 0]


NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.booleans(), NAMES, NAMES, st.integers(1, 3)), min_size=1, max_size=40
)


@given(STEPS)
async def test_random_transactions_of_two_processes_are_as_if_one_followed_another(
    two: list[PostgresDatabase], steps: list[tuple[int, bool, str, str, int]]
) -> None:
    await clear(two[0])
    await asyncio.gather(*(two[0].transaction(add(name, 5), turns=exclusive(name)) for name in "abc"))
    everything = Turns((), tuple(Turn("note", name) for name in "abc"))

    outcomes = await asyncio.gather(
        *(
            two[place].transaction(move(source, target, amount), turns=exclusive(source, target))
            for place, is_move, source, target, amount in steps
            if is_move and source != target
        ),
        *(
            two[place].transaction(add(source, amount), turns=exclusive(source))
            for place, is_move, source, _, amount in steps
            if not is_move
        ),
        *(two[place].transaction(sum_of("abc"), turns=everything) for place in (0, 1, 0, 1)),
    )

    added = sum(amount for _, is_move, _, _, amount in steps if not is_move)
    assert all(15 <= total <= 15 + added for total in outcomes[-4:])
    assert await two[0].transaction(sum_of("abc"), turns=everything) == 15 + added
    expected = list(model(steps, outcomes))
    assert await two[1].transaction(numbers) == expected


def exclusive(*names: str) -> Turns:
    return Turns(tuple(Turn("note", name) for name in names))


def numbers() -> Transaction[list[int]]:
    rows = yield Statement("SELECT number FROM notes ORDER BY name")
    return [number for (number,) in rows]


def model(steps: list[tuple[int, bool, str, str, int]], outcomes: list[int | bool]) -> list[int]:
    """The numbers after the steps, of which moves say whether they were made."""
    numbers = dict.fromkeys("abc", 5)
    moves = [step for step in steps if step[1] and step[2] != step[3]]
    for (_, _, source, target, amount), is_made in zip(moves, outcomes, strict=False):
        if is_made:
            numbers[source] -= amount
            numbers[target] += amount
    for _, is_move, source, _, amount in steps:
        if not is_move:
            numbers[source] += amount
    return list(numbers.values())


async def test_transactions_that_share_a_turn_do_not_wait_for_each_other(two: list[PostgresDatabase]) -> None:
    entered = [asyncio.Event(), asyncio.Event()]

    def work(place: int) -> Transaction[int]:
        yield Statement("SELECT 1")
        entered[place].set()
        for _ in range(1_000):
            if entered[1 - place].is_set():
                return 1
            yield Statement("SELECT 1")
        return 0

    shared = Turns((), (Turn("thing", "1"),))
    outcomes = await asyncio.gather(
        *(two[place].transaction(partial(work, place), turns=shared) for place in (0, 1))
    )

    assert 1 in outcomes


async def test_a_transaction_that_shares_a_turn_waits_for_the_transaction_that_has_it_alone(
    two: list[PostgresDatabase],
) -> None:
    await clear(two[0])
    thing = Turn("thing", "1")

    await asyncio.gather(
        *(two[number % 2].transaction(add("a", 1), turns=Turns((thing,))) for number in range(40)),
        *(two[number % 2].transaction(twice_the_same, turns=Turns((), (thing,))) for number in range(40)),
    )

    assert await two[0].transaction(sum_of("a")) == 40


def twice_the_same() -> Transaction[None]:
    one = yield Statement(NUMBER, ("a",))
    other = yield Statement(NUMBER, ("a",))
    assert one == other


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.booleans())))
def test_all_processes_take_locks_in_one_order(named: list[tuple[str, str, bool]]) -> None:
    jobs = [
        Turns((Turn(kind, id_),)) if alone else Turns((), (Turn(kind, id_),)) for kind, id_, alone in named
    ]

    script = beginning(jobs)

    keys = sorted({lock_key(Turn(kind, id_)) for kind, id_, _ in named})
    assert script == beginning(reversed(jobs))
    assert (f"ARRAY[{','.join(map(str, keys))}]" in script) if keys else script == "BEGIN"


def test_the_lock_of_a_turn_is_known_to_every_version() -> None:
    assert lock_key(Turn("session", "1")) == -3354317400142453170
    assert lock_key(Turn("ab", "c")) != lock_key(Turn("a", "bc"))
