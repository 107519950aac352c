import asyncio

import pytest

from bridge_server.push.providers.http2 import StreamQueue
from tests.support.eventually import turns


async def waiting(queue: StreamQueue, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(queue.next()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def done(tasks: list[asyncio.Task[None]]) -> list[bool]:
    await turns()
    return [task.done() for task in tasks]


async def test_as_many_are_woken_as_there_are_places_and_in_order() -> None:
    queue = StreamQueue(lambda: 2)
    tasks = await waiting(queue, 3)

    queue.wake()

    assert await done(tasks) == [True, True, False]
    queue.wake()
    assert await done(tasks) == [True, True, True]


async def test_without_a_place_only_a_call_to_all_wakes_waiters() -> None:
    queue = StreamQueue(lambda: 0)
    tasks = await waiting(queue, 3)

    queue.wake()

    assert await done(tasks) == [False, False, False]
    queue.wake_all()
    assert await done(tasks) == [True, True, True]


async def test_waiter_cancelled_before_its_turn_is_passed_over() -> None:
    queue = StreamQueue(lambda: 1)
    tasks = await waiting(queue, 3)
    tasks[0].cancel()

    assert await done(tasks) == [True, True, False]
    queue.wake()
    assert await done(tasks) == [True, True, True]


async def test_waiter_cancelled_at_its_turn_passes_it_on() -> None:
    queue = StreamQueue(lambda: 1)
    tasks = await waiting(queue, 2)

    queue.wake()
    tasks[0].cancel()

    assert await done(tasks) == [True, True]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
