"""Signals: a change is never missed, and a waiter that leaves leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Signals, Touched
from tests.support.eventually import turns
from tests.support.loop_time import PassTime
from tests.support.rows import each_row

KEY: Key = ("session", "a")
OTHER: Key = ("session", "b")
LONG = 60.0


class Cell:
    """A value to wait for, which counts its reads and can hold them up."""

    def __init__(self, value: str | None = None) -> None:
        self.value = value
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self) -> str | None:
        value = self.value
        self.reads += 1
        await self.gate.wait()
        return value


@pytest.fixture
def signals() -> Signals:
    return Signals()


@pytest.fixture
def cell() -> Cell:
    return Cell()


async def waiting(
    signals: Signals, *reads: Callable[[], Awaitable[str | None]], key: Key = KEY, seconds: float = LONG
) -> list["asyncio.Task[str | None]"]:
    """A waiter for each of these reads."""
    waiters = [asyncio.create_task(signals.wait_for(key, read, seconds)) for read in reads]
    await turns(5)
    return waiters


async def test_a_value_that_is_there_already_is_returned_without_waiting(signals: Signals) -> None:
    assert await signals.wait_for(KEY, Cell("there").read, LONG) == "there"
    assert signals.waiting == 0


async def test_every_waiter_of_a_key_wakes_at_one_touch(signals: Signals, cell: Cell) -> None:
    waiters = await waiting(signals, *[cell.read] * 200)
    assert signals.waiting == 200

    cell.value = "new"
    signals.touch(KEY)

    assert await asyncio.gather(*waiters) == ["new"] * 200
    assert signals.waiting == 0


async def test_a_change_between_the_read_and_the_sleep_is_not_lost(signals: Signals, cell: Cell) -> None:
    cell.gate.clear()
    (waiter,) = await waiting(signals, cell.read)
    assert cell.reads == 1

    cell.value = "new"
    signals.touch(KEY)
    cell.gate.set()

    assert await waiter == "new"


async def test_a_change_made_by_the_read_itself_is_not_lost(signals: Signals, cell: Cell) -> None:
    async def read_and_change() -> str | None:
        found, cell.value = cell.value, "new"
        signals.touch(KEY)
        return found

    assert await signals.wait_for(KEY, read_and_change, LONG) == "new"


async def test_a_touch_without_a_value_puts_the_waiter_back_to_sleep(signals: Signals, cell: Cell) -> None:
    (waiter,) = await waiting(signals, cell.read)

    signals.touch(KEY)
    await turns(5)

    assert (cell.reads, signals.waiting) == (2, 1)
    cell.value = "new"
    signals.touch(KEY)
    assert await waiter == "new"


async def test_a_wait_ends_at_its_time_whatever_touches_came_without_a_value(
    signals: Signals, cell: Cell, pass_time: PassTime
) -> None:
    (waiter,) = await waiting(signals, cell.read, seconds=10.0)

    for _ in range(9):
        await pass_time(1.0)
        signals.touch(KEY)
        await turns(5)
    await pass_time(0.9)
    assert not waiter.done()
    await pass_time(0.2)
    await turns(5)

    assert waiter.done()
    assert await waiter is None
    assert cell.reads == 10


async def test_a_touch_of_another_key_wakes_no_waiter(signals: Signals, cell: Cell) -> None:
    (waiter,) = await waiting(signals, cell.read)

    signals.touch(OTHER)
    await turns(5)

    assert cell.reads == 1
    assert not waiter.done()
    waiter.cancel()


@each_row("wait_seconds", [0, 0.001])
async def test_a_wait_that_times_out_leaves_no_waiter(signals: Signals, wait_seconds: float) -> None:
    assert await signals.wait_for(KEY, Cell().read, wait_seconds) is None

    assert signals.waiting == 0
    assert not signals.has_waiters


async def test_a_cancelled_waiter_leaves_and_later_ones_wake(signals: Signals, cell: Cell) -> None:
    leaving, *staying = await waiting(signals, *[cell.read] * 3)

    leaving.cancel()
    await asyncio.wait([leaving])
    assert signals.waiting == 2
    staying += await waiting(signals, *[cell.read] * 2)
    assert signals.waiting == 4

    cell.value = "new"
    signals.touch(KEY)

    assert await asyncio.gather(*staying) == ["new"] * 4
    assert not signals.has_waiters


@each_row("fails_at", [1, 2])
async def test_an_error_of_the_read_is_raised_and_the_waiter_leaves(signals: Signals, fails_at: int) -> None:
    reads = 0

    async def read() -> None:
        nonlocal reads
        reads += 1
        if reads == fails_at:
            raise LookupError("gone")
        asyncio.get_running_loop().call_soon(signals.touch, KEY)

    with pytest.raises(LookupError, match="gone"):
        await signals.wait_for(KEY, read, LONG)

    assert not signals.has_waiters


async def test_closing_wakes_every_waiter_even_while_it_reads(signals: Signals, cell: Cell) -> None:
    waiters = [waiter for key in (KEY, OTHER) for waiter in await waiting(signals, Cell().read, key=key)]
    cell.gate.clear()
    waiters += await waiting(signals, cell.read)

    signals.close()
    cell.gate.set()

    assert await asyncio.gather(*waiters) == [None] * 3
    assert signals.waiting == 0


async def test_a_wait_after_closing_returns_at_once_with_the_value_that_is_there(signals: Signals) -> None:
    signals.close()

    assert await signals.wait_for(KEY, Cell().read, LONG) is None
    assert await signals.wait_for(KEY, Cell("there").read, LONG) == "there"
    assert not signals.has_waiters


@each_row(("changed", "found"), [(True, "new"), (False, None)])
async def test_all_waiters_are_woken_to_read_again_or_with_nothing(
    signals: Signals, changed: bool, found: str | None
) -> None:
    cells = [Cell(), Cell(), Cell()]
    waiters = await waiting(signals, cells[0].read, cells[1].read)
    waiters += await waiting(signals, cells[2].read, key=OTHER)

    for cell in cells:
        cell.value = "new"
    signals.wake_all(changed=changed)

    assert await asyncio.gather(*waiters) == [found] * 3
    assert signals.waiting == 0


async def test_waiters_wait_again_after_all_were_woken(signals: Signals, cell: Cell) -> None:
    (waiter,) = await waiting(signals, cell.read)

    signals.wake_all(changed=True)
    await turns(5)
    cell.value = "new"
    signals.touch(KEY)

    assert (await waiter, cell.reads) == ("new", 3)


@pytest.mark.parametrize("of_another_process", [False, True])
async def test_a_change_wakes_the_waiters_of_its_key_and_a_gap_wakes_all(
    signals: Signals, cell: Cell, of_another_process: bool
) -> None:
    events, other = Events(), Cell()
    signals.subscribe_to(events)
    (waiter,) = await waiting(signals, cell.read)
    (other_waiter,) = await waiting(signals, other.read, key=OTHER)

    cell.value = "new"
    (events.hear if of_another_process else events.publish)(Touched(KEY))

    assert await waiter == "new"
    assert (cell.reads, other.reads) == (2, 1)
    other.value = "found"
    events.hear_everything()
    assert await other_waiter == "found"
