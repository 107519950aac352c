"""The machine's clock, and one that tests move."""

import time

from bridge_server.kernel.clock import MovableClock, SystemClock
from tests.support.clock import ManualClock


def test_the_system_clock_gives_the_time_since_the_epoch_in_both_units() -> None:
    clock = SystemClock()
    before_ns = time.time_ns()

    now_us, now_ms = clock.now_us(), clock.now_ms()

    after_ns = time.time_ns()
    assert before_ns // 1_000 <= now_us <= after_ns // 1_000
    assert before_ns // 1_000_000 <= now_ms <= after_ns // 1_000_000


def test_elapsed_time_is_in_microseconds_and_never_goes_back() -> None:
    clock = SystemClock()
    first = clock.elapsed_us()
    before_ns = time.monotonic_ns()

    while time.monotonic_ns() - before_ns < 2_000_000:
        pass

    assert clock.elapsed_us() - first >= 2_000


def readings(clock: MovableClock) -> tuple[int, int]:
    return clock.now_us(), clock.elapsed_us()


def test_a_movable_clock_goes_by_the_clock_behind_it() -> None:
    behind = ManualClock()
    clock = MovableClock(behind)
    before_us = clock.now_us()

    behind.advance(2)

    assert readings(clock) == (before_us + 2_000_000, 2_000_000)
    assert clock.now_ms() == clock.now_us() // 1_000


def test_a_movable_clock_that_is_advanced_lets_time_elapse() -> None:
    clock = MovableClock(ManualClock())
    before_us = clock.now_us()

    clock.advance(5)

    assert readings(clock) == (before_us + 5, 5)


def test_a_frozen_clock_stands_still_until_it_is_moved() -> None:
    behind = ManualClock()
    clock = MovableClock(behind)
    clock.set(clock.now_us() + 10, frozen=True)
    frozen = readings(clock)

    behind.advance(2)
    stood = readings(clock)
    clock.advance(3)

    assert (stood, clock.is_frozen) == (frozen, True)
    assert readings(clock) == (frozen[0] + 3, frozen[1] + 3)


def test_a_clock_that_is_set_back_lets_no_time_elapse_and_never_back() -> None:
    clock = MovableClock(ManualClock())
    clock.advance(1_000_000)
    before_us, elapsed_us = readings(clock)

    clock.set(before_us - 500_000, frozen=False)

    assert readings(clock) == (before_us - 500_000, elapsed_us)


def test_a_clock_that_is_put_right_keeps_what_elapsed() -> None:
    behind = ManualClock()
    clock = MovableClock(behind)
    clock.set(behind.now_us() + 7, frozen=True)

    clock.put_right()

    assert (readings(clock), clock.is_frozen) == ((behind.now_us(), 7), False)
