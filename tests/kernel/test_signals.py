"""Signals: a change is never missed, and who leaves leaves nothing behind."""

import asyncio

import pytest

from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Signals, Touched
from tests.support.rows import each_row

KEY: Key = ("session", "a")
OTHER: Key = ("session", "b")
LONG = 60.0


@pytest.fixture
def signals() -> Signals:
    return Signals()


class Cell:
    """Something to wait for, that says how often it was read and can be held up while it is."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self) -> str | None:
        value = self.value
        self.reads += 1
        await self.gate.wait()
        return value


async def turn(times: int = 5) -> None:
    """Let everything that is ready run."""
    for _ in range(times):
        await asyncio.sleep(0)


async def test_a_value_that_is_there_already_is_returned_without_waiting(signals: Signals) -> None:
    cell = Cell()
    cell.value = "there"

    found = await signals.wait_for(KEY, cell.read, LONG)

    assert found == "there"
    assert signals.waiting == 0


async def test_a_waiter_wakes_when_its_key_is_touched(signals: Signals) -> None:
    cell = Cell()
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()

    cell.value = "new"
    signals.touch(KEY)

    assert await waiter == "new"
    assert signals.waiting == 0


async def test_a_change_between_the_read_and_the_sleep_is_not_lost(signals: Signals) -> None:
    cell = Cell()
    cell.gate.clear()
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()
    assert cell.reads == 1

    cell.value = "new"
    signals.touch(KEY)
    cell.gate.set()

    assert await waiter == "new"


async def test_a_change_made_by_the_read_itself_is_not_lost(signals: Signals) -> None:
    cell = Cell()

    async def read_and_change() -> str | None:
        found = cell.value
        cell.value = "new"
        signals.touch(KEY)
        return found

    assert await signals.wait_for(KEY, read_and_change, LONG) == "new"


async def test_every_waiter_of_a_key_wakes_at_one_touch(signals: Signals) -> None:
    cell = Cell()
    waiters = [asyncio.create_task(signals.wait_for(KEY, cell.read, LONG)) for _ in range(200)]
    await turn()
    assert signals.waiting == 200

    cell.value = "new"
    signals.touch(KEY)

    assert await asyncio.gather(*waiters) == ["new"] * 200
    assert signals.waiting == 0


async def test_a_touch_without_a_value_puts_the_waiter_back_to_sleep(signals: Signals) -> None:
    cell = Cell()
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()

    signals.touch(KEY)
    await turn()

    assert cell.reads == 2
    assert signals.waiting == 1
    cell.value = "new"
    signals.touch(KEY)
    assert await waiter == "new"


class LoopTime:
    """The time of the running event loop, which stands still until a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self._now)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, and run everything that is due by then."""
        self._now += seconds
        await turn()


async def test_touches_without_a_value_do_not_move_the_deadline(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, cell = LoopTime(monkeypatch), Cell()
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, 10.0))
    await turn()

    for _ in range(9):
        await time.pass_by(1.0)
        signals.touch(KEY)
        await turn()
        assert not waiter.done()
    await time.pass_by(1.1)

    assert waiter.done()
    assert await waiter is None
    assert cell.reads == 10


async def test_a_wait_ends_neither_before_its_time_nor_long_after(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = LoopTime(monkeypatch)
    waiter = asyncio.create_task(signals.wait_for(KEY, Cell().read, 10.0))
    await turn()

    await time.pass_by(9.99)
    assert not waiter.done()
    await time.pass_by(0.06)

    assert waiter.done()
    assert await waiter is None


async def test_a_touch_of_another_key_wakes_no_waiter(signals: Signals) -> None:
    cell = Cell()
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()

    signals.touch(OTHER)
    await turn()

    assert cell.reads == 1
    assert not waiter.done()
    waiter.cancel()


@each_row("wait_seconds", [0, 0.001])
async def test_a_wait_that_times_out_returns_none_and_leaves_no_waiter(
    signals: Signals, wait_seconds: float
) -> None:
    assert await signals.wait_for(KEY, Cell().read, wait_seconds) is None

    assert signals.waiting == 0
    assert not signals.has_waiters


async def test_a_cancelled_waiter_leaves(signals: Signals) -> None:
    cell = Cell()
    leaving = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    staying = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()

    leaving.cancel()
    await asyncio.wait([leaving])

    assert signals.waiting == 1
    cell.value = "new"
    signals.touch(KEY)
    assert await staying == "new"
    assert not signals.has_waiters


async def test_a_waiter_that_joins_after_the_first_has_left_wakes_with_the_others(signals: Signals) -> None:
    cell = Cell()
    leaving, *staying = [asyncio.create_task(signals.wait_for(KEY, cell.read, LONG)) for _ in range(3)]
    await turn()
    leaving.cancel()
    await asyncio.wait([leaving])
    staying += [asyncio.create_task(signals.wait_for(KEY, cell.read, LONG)) for _ in range(2)]
    await turn()
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


async def test_closing_wakes_every_waiter_with_nothing(signals: Signals) -> None:
    waiters = [
        asyncio.create_task(signals.wait_for(key, Cell().read, LONG)) for key in (KEY, KEY, OTHER, OTHER)
    ]
    await turn()

    signals.close()

    assert await asyncio.gather(*waiters) == [None] * 4
    assert signals.waiting == 0


async def test_a_wait_after_closing_returns_at_once_with_the_value_that_is_there(signals: Signals) -> None:
    filled = Cell()
    filled.value = "there"

    signals.close()

    assert await signals.wait_for(KEY, Cell().read, LONG) is None
    assert await signals.wait_for(KEY, filled.read, LONG) == "there"
    assert not signals.has_waiters


async def test_closing_while_a_waiter_reads_does_not_leave_it_asleep(signals: Signals) -> None:
    cell = Cell()
    cell.gate.clear()
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()

    signals.close()
    cell.gate.set()

    assert await waiter is None


async def test_a_touched_key_wakes_its_waiters(signals: Signals) -> None:
    events, cell = Events(), Cell()
    signals.subscribe_to(events)
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()

    cell.value = "new"
    events.publish(Touched(OTHER))
    events.publish(Touched(KEY))

    assert await waiter == "new"
    assert cell.reads == 2


@each_row(("changed", "found"), [(True, "new"), (False, None)])
async def test_all_waiters_are_woken_to_read_again_or_with_nothing(
    signals: Signals, changed: bool, found: str | None
) -> None:
    cells = [Cell(), Cell(), Cell()]
    keys = (KEY, KEY, OTHER)
    waiters = [
        asyncio.create_task(signals.wait_for(key, cell.read, LONG))
        for key, cell in zip(keys, cells, strict=True)
    ]
    await turn()

    for cell in cells:
        cell.value = "new"
    signals.wake_all(changed=changed)

    assert await asyncio.gather(*waiters) == [found] * 3
    assert signals.waiting == 0


async def test_waiters_wait_again_after_all_were_woken(signals: Signals) -> None:
    cell = Cell()
    waiter = asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))
    await turn()

    signals.wake_all(changed=True)
    await turn()
    cell.value = "new"
    signals.touch(KEY)

    assert (await waiter, cell.reads) == ("new", 3)


async def test_a_change_in_another_process_wakes_the_waiters_of_its_key(signals: Signals) -> None:
    events, cell, other = Events(), Cell(), Cell()
    signals.subscribe_to(events)
    waits = [asyncio.create_task(signals.wait_for(KEY, cell.read, LONG))]
    waits.append(asyncio.create_task(signals.wait_for(OTHER, other.read, LONG)))
    await turn()

    cell.value = "new"
    events.hear(Touched(KEY))

    assert await waits[0] == "new"
    assert other.reads == 1
    other.value = "found"
    events.hear_everything()
    assert await waits[1] == "found"
