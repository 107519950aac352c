"""The contract of every driver: who stops waiting changes nothing for anybody else."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bridge_server.kernel.signals import Key
from bridge_server.storage.database import Database, Statement, Transaction
from tests.storage.notes import EVENTS, fail_after_writing, names, put, text_of, turn
from tests.support.rows import each_row

# So many turns of the event loop after the start: before, while and after the commit is on its way.
TURNS = (0, 1, 2, 3, 4, 5, 7, 10, 15, 25, 50, 100, 200, 400, 800)


async def called(database: Database, begin: Callable[[], Transaction[Any]]) -> Any:
    """A caller, who may leave before it has begun."""
    return await database.transaction(begin)


async def test_a_transaction_runs_to_its_end_though_its_caller_left(
    database: Database, heard: list[Key]
) -> None:
    task = asyncio.create_task(called(database, put("a", "text")))
    await turn(1)
    task.cancel()
    await asyncio.wait([task])

    await database.transaction(put("b", "text"))

    assert task.cancelled()
    assert await names(database) == ["a", "b"]
    assert heard == [("note", "a"), ("note", "b")]


@pytest.mark.parametrize("turns", TURNS)
async def test_a_caller_may_leave_at_any_moment(database: Database, heard: list[Key], turns: int) -> None:
    task = asyncio.create_task(called(database, put("a", "text")))
    await turn(turns)
    task.cancel()
    await asyncio.wait([task])

    await database.transaction(put("b", "text"))

    begun = turns > 0
    assert await names(database) == (["a", "b"] if begun else ["b"])
    assert await database.read(EVENTS) == ([("a",), ("b",)] if begun else [("b",)])
    assert heard == ([("note", "a"), ("note", "b")] if begun else [("note", "b")])


async def test_every_second_caller_may_leave_while_the_others_are_answered(database: Database) -> None:
    tasks = [asyncio.create_task(called(database, put(f"{number:04}", "x"))) for number in range(400)]
    await turn(1)
    for number, task in enumerate(tasks[::2]):
        task.cancel()
        await turn(number % 4)

    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert outcomes[1::2] == ["x"] * 200
    assert await names(database) == [f"{number:04}" for number in range(400)]


@pytest.mark.parametrize("turns", TURNS)
async def test_a_failing_transaction_whose_caller_left_leaves_no_trace(
    database: Database, heard: list[Key], turns: int
) -> None:
    task = asyncio.create_task(called(database, fail_after_writing))
    await turn(turns)
    task.cancel()
    await asyncio.wait([task])
    task.cancelled() or task.exception()

    await database.transaction(put("b", "text"))

    assert await names(database) == ["b"]
    assert heard == [("note", "b")]


@each_row("turns", TURNS)
async def test_reads_may_be_left_at_any_moment(database: Database, turns: int) -> None:
    await database.transaction(put("a", "text"))
    tasks = [asyncio.create_task(text_of(database, "a")) for _ in range(200)]
    await turn(turns)
    for task in tasks[::2]:
        task.cancel()

    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert outcomes[1::2] == ["text"] * 100
    assert await asyncio.gather(*(text_of(database, "a") for _ in range(200))) == ["text"] * 200


async def test_a_transaction_of_many_steps_is_whole_though_its_caller_left(database: Database) -> None:
    def work() -> Transaction[None]:
        for number in range(2_000):
            yield Statement("INSERT INTO notes (name) VALUES (?)", (f"{number:04}",))

    tasks = []
    for turns in TURNS:
        tasks.append(asyncio.create_task(called(database, work)))
        await turn(turns + 1)
        tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await database.transaction(put("last", "text"))

    assert len(await names(database)) == 2_001
