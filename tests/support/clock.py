"""A clock that stands still until a test moves it."""


class ManualClock:
    """Implements the kernel's Clock; starts at a fixed moment."""

    def __init__(self, start_ms: int = 1_800_000_000_000) -> None:
        self._now_us = start_ms * 1_000

    def now_us(self) -> int:
        return self._now_us

    def now_ms(self) -> int:
        return self._now_us // 1_000

    def advance(self, seconds: float) -> None:
        """Move the clock; a negative number sets it back."""
        self._now_us += round(seconds * 1_000_000)
