"""The machine's clock."""

import time

from bridge_server.kernel.clock import SystemClock


def test_it_tells_the_time_since_the_epoch_in_both_units() -> None:
    clock = SystemClock()
    before_ns = time.time_ns()

    now_us, now_ms = clock.now_us(), clock.now_ms()

    after_ns = time.time_ns()
    assert before_ns // 1_000 <= now_us <= after_ns // 1_000
    assert before_ns // 1_000_000 <= now_ms <= after_ns // 1_000_000
