"""Time as an argument: rules ask a clock that is handed in, so that a test can move it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time."""

    def now_us(self) -> int:
        """Microseconds since the Unix epoch."""
        ...

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
