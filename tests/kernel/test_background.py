"""Work that goes on beside something else, sweeps among it, and what waits when the server stops."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge_server.kernel.background import StoppedError, Stopping, running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.sweeper import Sweep, Sweeper
from tests.support.clock import ManualClock, PassTime
from tests.support.rows import each_row
from tests.support.waiting import eventually, turns


class Work:
    """Goes on for ever, and ends once it may."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.ending = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.ended = False

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.may_end.wait()
            self.ended = True


async def test_background_work_ends_when_the_block_fails() -> None:
    work = Work()
    work.may_end.set()

    async def fail_inside() -> None:
        async with running(work.run()):
            await work.begun.wait()
            assert not work.ended
            raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        await fail_inside()
    assert work.ended


async def test_a_failure_of_the_work_is_raised_when_the_block_is_left() -> None:
    async def failing() -> None:
        raise LookupError("beside")

    async def look_away() -> None:
        async with running(failing()):
            await asyncio.sleep(0)

    with pytest.raises(LookupError, match="beside"):
        await look_away()


async def test_a_block_that_is_cancelled_while_its_work_ends_stays_cancelled() -> None:
    work, went_on = Work(), []

    async def leave_slowly() -> None:
        async with running(work.run()):
            await work.begun.wait()
        went_on.append(True)

    leaving = asyncio.create_task(leave_slowly())
    await work.ending.wait()
    leaving.cancel()
    work.may_end.set()
    await asyncio.wait([leaving])
    assert (leaving.cancelled(), went_on) == (True, [])


async def test_the_grace_is_one_for_all_and_nothing_begins_after_it(pass_time: PassTime) -> None:
    begun: list[None] = []

    async def work() -> int:
        begun.append(None)
        await asyncio.sleep(0)
        return 7

    stopping = Stopping(60)
    has_begun = [stopping.has_begun]
    assert await stopping.finish(work()) == 7
    waiting = [asyncio.create_task(stopping.finish(asyncio.Event().wait())) for _ in range(3)]
    await asyncio.sleep(0)
    stopping.close()
    assert [*has_begun, stopping.has_begun] == [False, True]
    assert await stopping.finish(work()) == 7, "within the grace"
    await turns()
    assert not any(each.done() for each in waiting)

    await pass_time(60)
    stopping.close()
    for each in (*waiting, stopping.finish(work())):
        with pytest.raises(StoppedError):
            await each
    assert len(begun) == 2


HOUR = 3_600


class Rubbish:
    """Something to sweep, in slices of ten."""

    def __init__(self, rows: int, *failures: Exception) -> None:
        self.rows = rows
        self.failures = list(failures)
        self.slices: list[tuple[int, int]] = []

    async def sweep(self, now_ms: int) -> int:
        if self.failures:
            raise self.failures.pop()
        deleted = min(self.rows, 10)
        self.rows -= deleted
        self.slices.append((now_ms, deleted))
        return deleted

    def is_gone(self) -> bool:
        return self.rows == 0


def sweeper(*sweeps: Sweep, clock: ManualClock | None = None, **options: Any) -> Sweeper:
    return Sweeper(sweeps, clock or ManualClock(5), interval_seconds=0.001, **options)


async def test_every_sweep_takes_slices_until_nothing_is_left_and_pauses_between_two() -> None:
    heaps, between = [Rubbish(25), Rubbish(0), Rubbish(12)], list[int]()

    async def sweep_and_call_another(now_ms: int) -> int:
        asyncio.get_running_loop().call_soon(lambda: between.append(len(heaps[0].slices)))
        return await heaps[0].sweep(now_ms)

    assert await sweeper(sweep_and_call_another, heaps[1].sweep, heaps[2].sweep).sweep() == 37
    assert [heap.rows for heap in heaps] == [0, 0, 0]
    assert heaps[0].slices == [(5, 10), (5, 10), (5, 5), (5, 0)]
    assert between[:2] == [1, 2]


async def test_a_sweep_that_is_under_way_can_be_waited_for() -> None:
    """No public door reaches the moment: it is that of a reset beside a sweep by a clock that was ahead."""
    rubbish, held = Rubbish(25), asyncio.Event()

    async def sweep_once_let_go(now_ms: int) -> int:
        await held.wait()
        return await rubbish.sweep(now_ms)

    swept = sweeper(sweep_once_let_go)
    sweeping = asyncio.create_task(swept.sweep())
    await asyncio.sleep(0)
    ended = asyncio.create_task(swept.none_under_way())
    await asyncio.sleep(0)
    assert not ended.done()

    held.set()
    await ended
    assert rubbish.is_gone()
    assert await sweeping == 25


async def test_the_sweeper_goes_on_after_failures_and_deletes_rows_that_expire_later() -> None:
    rubbish = Rubbish(25, UnavailableError("the disk is full"), ValueError("a bug"))
    refusals = [UnavailableError("the database is away")]

    @asynccontextmanager
    async def hold() -> AsyncIterator[bool]:
        if refusals:
            raise refusals.pop()
        yield True

    with capture_logs() as logs:
        async with running(sweeper(rubbish.sweep, hold=hold).run_forever()):
            await eventually(rubbish.is_gone)
            rubbish.rows = 15
            await eventually(rubbish.is_gone)
    assert [line["event"] for line in logs] == ["sweep_postponed", "sweep_failed", "sweep_postponed"]


def jumps_in(events: Sequence[Mapping[str, Any]]) -> list[int]:
    return [event["seconds"] for event in events if event["event"] == "clock_jumped"]


async def until_an_hour_is_over(clock: ManualClock, rubbish: Rubbish, pass_time: PassTime) -> None:
    """Nothing is swept until the last second of an hour, and everything after it."""
    clock.advance(HOUR - 1)
    for _ in range(5):
        await pass_time(0.001)
    assert rubbish.slices == []
    clock.advance(1)
    await eventually(rubbish.is_gone)


@pytest.mark.parametrize("jump", [3, 59 * 60, HOUR + 1, 10 * 365 * 24 * HOUR, -HOUR - 1])
async def test_a_clock_jump_is_logged_and_pauses_sweeping(jump: int, pass_time: PassTime) -> None:
    clock, rubbish = ManualClock(), Rubbish(5)
    sweeping = sweeper(rubbish.sweep, clock=clock)
    clock.set_by(jump)
    with capture_logs() as events:
        async with running(sweeping.run_forever()):
            await eventually(lambda: len(jumps_in(events)) >= 1)
            await until_an_hour_is_over(clock, rubbish, pass_time)
    assert jumps_in(events) == [jump]


async def test_a_second_jump_begins_another_hour(pass_time: PassTime) -> None:
    clock, rubbish = ManualClock(), Rubbish(5)
    sweeping = sweeper(rubbish.sweep, clock=clock)
    clock.set_by(2 * HOUR)
    with capture_logs() as events:
        async with running(sweeping.run_forever()):
            await eventually(lambda: len(jumps_in(events)) >= 1)
            clock.advance(HOUR - 1)
            clock.set_by(-2 * HOUR)
            await eventually(lambda: len(jumps_in(events)) >= 2)
            await until_an_hour_is_over(clock, rubbish, pass_time)


@each_row(("correction", "asleep"), [(2, 0), (-2, 0), (-1, 0), (0, 2 * HOUR), (0, 365 * 24 * HOUR)])
async def test_a_clock_set_a_little_and_sleep_are_no_jump(correction: int, asleep: int) -> None:
    clock, rubbish = ManualClock(), Rubbish(5)
    sweeping = sweeper(rubbish.sweep, clock=clock)
    clock.set_by(correction)
    clock.advance(asleep)
    async with running(sweeping.run_forever()):
        await eventually(rubbish.is_gone)


async def test_only_the_process_that_has_the_hold_sweeps() -> None:
    holds, left, rubbish = [False, False, True], list[bool](), Rubbish(3)

    @asynccontextmanager
    async def hold() -> AsyncIterator[bool]:
        is_held = holds.pop(0) if holds else False
        yield is_held
        left.append(is_held)

    async with running(sweeper(rubbish.sweep, hold=hold).run_forever()):
        await eventually(lambda: True in left)
    assert left[:3] == [False, False, True]
    assert len(rubbish.slices) == 2
