"""Time as an argument: rules ask a clock that is handed in, so that a test can move it."""

import time
from typing import Final, Protocol

# CLOCK_BOOTTIME counts while the machine sleeps; only Linux has it.
_ELAPSING: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Wall-clock time, and time that elapses."""

    def now_us(self) -> int:
        """Microseconds since the Unix epoch. An operator may set it, forward or back."""
        ...

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def elapsed_us(self) -> int:
        """Microseconds since some moment before this process. It cannot be set, and never goes back.

        For deadlines that are kept in memory. Another process may count from another moment.
        """
        ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_us(self) -> int:
        return time.clock_gettime_ns(_ELAPSING) // 1_000
