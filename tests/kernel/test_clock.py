"""The machine's clock."""

import time

from bridge_server.kernel.clock import SystemClock


def test_the_system_clock_gives_the_time_since_the_epoch_in_both_units() -> None:
    clock = SystemClock()
    before_ns = time.time_ns()

    now_us, now_ms = clock.now_us(), clock.now_ms()

    after_ns = time.time_ns()
    assert before_ns // 1_000 <= now_us <= after_ns // 1_000
    assert before_ns // 1_000_000 <= now_ms <= after_ns // 1_000_000


def test_elapsed_time_is_in_microseconds_and_never_goes_back() -> None:
    clock = SystemClock()
    before_ns, first = time.monotonic_ns(), clock.elapsed_us()

    time.sleep(0.002)

    passed, passed_ns = clock.elapsed_us() - first, time.monotonic_ns() - before_ns
    assert 1_000 <= passed <= passed_ns // 1_000 + 1
