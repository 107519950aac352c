import asyncio

import pytest

from bridge_server.push.providers.http2 import StreamQueue


async def waiting(turns: StreamQueue, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(turns.next()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def done(tasks: list[asyncio.Task[None]]) -> list[bool]:
    await asyncio.sleep(0.01)
    return [task.done() for task in tasks]


async def test_as_many_are_woken_as_there_are_places_and_in_order() -> None:
    turns = StreamQueue(lambda: 2)
    tasks = await waiting(turns, 3)

    turns.wake()

    assert await done(tasks) == [True, True, False]
    turns.wake()
    assert await done(tasks) == [True, True, True]


async def test_without_a_place_only_a_call_to_all_wakes_waiters() -> None:
    turns = StreamQueue(lambda: 0)
    tasks = await waiting(turns, 3)

    turns.wake()

    assert await done(tasks) == [False, False, False]
    turns.wake_all()
    assert await done(tasks) == [True, True, True]


async def test_waiter_cancelled_before_its_turn_is_passed_over() -> None:
    turns = StreamQueue(lambda: 1)
    tasks = await waiting(turns, 3)
    tasks[0].cancel()

    assert await done(tasks) == [True, True, False]
    turns.wake()
    assert await done(tasks) == [True, True, True]


async def test_waiter_cancelled_at_its_turn_passes_it_on() -> None:
    turns = StreamQueue(lambda: 1)
    tasks = await waiting(turns, 2)

    turns.wake()
    tasks[0].cancel()

    assert await done(tasks) == [True, True]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
