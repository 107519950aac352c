"""Finds that the wall clock was set: the time of day and the elapsed time no longer agree."""

from bridge_server.kernel.clock import Clock

TOLERANCE_US = 3_600_000_000
"""A smaller step, forward or back, is an ordinary correction of the clock."""


class ClockJumps:
    """Compares the two times at each look. A machine that slept has no jump: both have moved on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._difference_us = self._difference()

    def since_last_look_us(self) -> int:
        """The time by which the clock was set forward (back: below 0) since the last look; 0 if tolerable."""
        before, self._difference_us = self._difference_us, self._difference()
        moved_us = self._difference_us - before
        return moved_us if abs(moved_us) > TOLERANCE_US else 0

    def _difference(self) -> int:
        return self._clock.now_us() - self._clock.elapsed_us()
