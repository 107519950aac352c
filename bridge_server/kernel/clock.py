"""Time as an argument: rules ask a clock that is handed in, so that a test can move it."""

import time
from typing import Final, Protocol

# CLOCK_BOOTTIME counts while the machine sleeps; only Linux has it.
_ELAPSING: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_TOLERATED_JUMP_US = 2_000_000
"""A smaller step, forward or back, is an ordinary correction of the clock."""


class Clock(Protocol):
    """Wall-clock time, and time that elapses."""

    tick_seconds: float
    """The longest sleep of a loop that acts by this clock, before it looks at the clock again."""

    def now_us(self) -> int:
        """Microseconds since the Unix epoch. An operator may set it, forward or back."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def elapsed_us(self) -> int:
        """Microseconds since a moment before this process, for deadlines in memory. It never goes back."""


class SystemClock:
    """The machine's clock."""

    tick_seconds = 1.0

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_us(self) -> int:
        return time.clock_gettime_ns(_ELAPSING) // 1_000


class MovableClock:
    """The machine's clock, moved by as much as a test asks for; it can stand still."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.tick_seconds = self._clock.tick_seconds
        self._ahead_us = 0
        self._elapsed_ahead_us = 0
        self._stopped_at: tuple[int, int] | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether the clock is frozen."""
        return self._stopped_at is not None

    def now_us(self) -> int:
        return self._stopped_at[0] if self._stopped_at else self._clock.now_us() + self._ahead_us

    def now_ms(self) -> int:
        return self.now_us() // 1_000

    def elapsed_us(self) -> int:
        return self._stopped_at[1] if self._stopped_at else self._clock.elapsed_us() + self._elapsed_ahead_us

    def advance(self, duration_us: int) -> None:
        """Let time pass, at least 0 microseconds; a frozen clock stays frozen, later."""
        if self._stopped_at is not None:
            now_us, elapsed_us = self._stopped_at
            self._stopped_at = now_us + duration_us, elapsed_us + duration_us
        else:
            self._ahead_us += duration_us
            self._elapsed_ahead_us += duration_us

    def set(self, now_us: int, *, frozen: bool) -> None:
        """Set the time of day. Time elapses as far as it goes forward, and never goes back."""
        elapsed_us = self.elapsed_us() + max(0, now_us - self.now_us())
        self._ahead_us = now_us - self._clock.now_us()
        self._elapsed_ahead_us = elapsed_us - self._clock.elapsed_us()
        self._stopped_at = (now_us, elapsed_us) if frozen else None

    def put_right(self) -> None:
        """Follow the machine's time of day again."""
        self.set(self._clock.now_us(), frozen=False)


class ClockJumps:
    """Finds that the wall clock was set: it moved by another amount than elapsed time. Sleep moves both."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._difference_us = self._difference()

    def since_last_check_us(self) -> int:
        """The time by which the clock was set forward (back: below 0) since the last look; 0 if tolerable."""
        before, self._difference_us = self._difference_us, self._difference()
        moved_us = self._difference_us - before
        return moved_us if abs(moved_us) > _TOLERATED_JUMP_US else 0

    def _difference(self) -> int:
        return self._clock.now_us() - self._clock.elapsed_us()
