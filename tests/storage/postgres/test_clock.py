"""The clock of a process follows that of the database server.

The steps of a clock are arithmetic, which no client can bring about.
"""

import pytest

from bridge_server.storage.postgres.clock import CorrectedClock, compare
from tests.support.clock import ManualClock

SECOND_US = 1_000_000


@pytest.fixture
def machine() -> ManualClock:
    return ManualClock()


def correct(clock: CorrectedClock, machine: ManualClock, skew_us: int) -> None:
    """Have the database server's clock so far ahead of the machine's."""
    clock.correct(machine.now_us() - machine.elapsed_us() + skew_us)


def test_a_first_difference_counts_at_once_later_ones_a_millisecond_a_second(machine: ManualClock) -> None:
    clock = CorrectedClock(machine)
    correct(clock, machine, -3 * SECOND_US)
    assert clock.now_ms() == machine.now_ms() - 3_000
    correct(clock, machine, -3 * SECOND_US + 5_500)

    seen = []
    for _ in range(7):
        machine.advance(1)
        seen.append(clock.now_us() - machine.now_us() + 3 * SECOND_US)
    assert seen == [1_000, 2_000, 3_000, 4_000, 5_000, 5_500, 5_500]


def test_time_never_goes_back_by_a_correction(machine: ManualClock) -> None:
    clock = CorrectedClock(machine)
    correct(clock, machine, 0)
    correct(clock, machine, -SECOND_US)

    seen = []
    for _ in range(1_000):
        machine.advance(0.001)
        seen.append(clock.now_us())
    assert seen == sorted(seen)


def test_a_clock_that_is_far_off_is_reported_and_at_last_too_far(machine: ManualClock) -> None:
    found = {}
    for skew_us in (250_000, 250_001, -300_000, 2_000_000, -2_000_001):
        clock = CorrectedClock(machine)
        correct(clock, machine, skew_us)
        found[skew_us] = (len(clock.troubles), len(clock.missing))
    assert list(found.values()) == [(0, 0), (1, 0), (1, 0), (1, 0), (1, 1)], found


async def test_a_step_of_the_machines_clock_during_a_comparison_moves_nothing(machine: ManualClock) -> None:
    clock, began_us = CorrectedClock(machine), machine.now_us()

    class Server:
        async def read(self, _: str) -> list[tuple[int]]:
            machine.advance(0.01)
            machine.set_by(86_400)
            return [(began_us + machine.elapsed_us(),)]

    for _ in range(2):
        await compare(clock, Server())  # type: ignore[arg-type]
        assert abs(clock.now_us() - began_us - machine.elapsed_us()) < SECOND_US
