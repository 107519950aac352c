import asyncio

import pytest

from bridge_server.outbox.guarded_client import ReservedSemaphore
from tests.support.rows import each_row


async def taken_at_once(places: ReservedSemaphore, key: str, asked: int) -> int:
    """How many of `asked` places are given without waiting."""
    tasks = [asyncio.create_task(places.take(key)) for _ in range(asked)]
    await asyncio.sleep(0)
    given = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return given


async def test_strangers_cannot_take_the_reserved_places() -> None:
    places = ReservedSemaphore(total=10, kept=3)
    places.note("good", True)

    assert await taken_at_once(places, "stranger", 20) == 7
    assert await taken_at_once(places, "good", 20) == 3


async def test_a_key_that_failed_counts_as_a_stranger() -> None:
    places = ReservedSemaphore(total=10, kept=3)
    places.note("bad", True)
    places.note("bad", False)

    assert await taken_at_once(places, "bad", 20) == 7


async def test_a_key_that_succeeds_may_take_all_places() -> None:
    places = ReservedSemaphore(total=10, kept=3)
    places.note("good", True)

    assert await taken_at_once(places, "good", 20) == 10


@each_row("well", [True, False])
async def test_a_returned_place_goes_to_the_first_waiter(well: bool) -> None:
    places = ReservedSemaphore(total=1, kept=0)
    places.note("key", well)
    leave = await places.take("key")
    first, second = (asyncio.create_task(places.take("key")) for _ in range(2))
    await asyncio.sleep(0)

    leave()
    await asyncio.wait([first])

    assert not second.done()
    first.result()()
    await second


async def test_a_wait_that_is_cancelled_takes_no_place() -> None:
    places = ReservedSemaphore(total=2, kept=0)
    places.note("good", True)
    held = [await places.take("good"), await places.take("good")]
    waiting = asyncio.create_task(places.take("stranger"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    for leave in held:
        leave()

    assert await taken_at_once(places, "stranger", 3) == 2


def test_only_the_outcomes_of_the_keys_used_last_are_remembered() -> None:
    places = ReservedSemaphore(total=1, kept=0)

    for number in range(10_001):
        places.note(str(number), True)

    assert places.went_well("0") is None
    assert places.went_well("1") is True
    assert places.went_well("10000") is True
