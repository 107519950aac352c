"""The sweeper: slice after slice until nothing is left, and again later whatever happened."""

import asyncio
from collections.abc import Sequence

from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.sweeper import Sweep, Sweeper
from tests.support.clock import ManualClock
from tests.support.eventually import eventually


class Rubbish:
    """Something to sweep, in slices of ten."""

    def __init__(self, rows: int, failures: Sequence[Exception] = ()) -> None:
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

    async def is_gone(self) -> bool:
        return self.rows == 0


def sweeper(*sweeps: Sweep, clock: ManualClock | None = None) -> Sweeper:
    return Sweeper(sweeps, clock or ManualClock(5), interval_seconds=0.001)


async def test_slices_are_taken_until_nothing_is_left() -> None:
    rubbish = Rubbish(25)

    swept = await sweeper(rubbish.sweep).sweep()

    assert swept == 25
    assert rubbish.slices == [(5, 10), (5, 10), (5, 5), (5, 0)]


async def test_every_sweep_has_its_turn() -> None:
    heaps = [Rubbish(3), Rubbish(0), Rubbish(12)]

    swept = await sweeper(*(heap.sweep for heap in heaps)).sweep()

    assert swept == 15
    assert [heap.rows for heap in heaps] == [0, 0, 0]


async def test_others_have_a_turn_between_two_slices() -> None:
    rubbish = Rubbish(20)
    turns: list[int] = []

    async def sweep_and_call_another(now_ms: int) -> int:
        asyncio.get_running_loop().call_soon(lambda: turns.append(len(rubbish.slices)))
        return await rubbish.sweep(now_ms)

    await sweeper(sweep_and_call_another).sweep()

    assert turns[:2] == [1, 2]


async def test_it_goes_on_after_a_database_that_could_not_serve() -> None:
    rubbish = Rubbish(25, failures=[UnavailableError("locked"), UnavailableError("the disk is full")])

    async with running(sweeper(rubbish.sweep).run_forever()):
        await eventually(rubbish.is_gone)

    assert not rubbish.failures


async def test_it_sweeps_again_what_expires_later() -> None:
    rubbish = Rubbish(5)

    async with running(sweeper(rubbish.sweep).run_forever()):
        await eventually(rubbish.is_gone)
        rubbish.rows = 15
        await eventually(rubbish.is_gone)

    assert rubbish.rows == 0
