"""Ids of JSON-RPC requests, in the form of the published clients."""

import time
from secrets import randbelow


class PayloadIds:
    """Milliseconds since the epoch times 1,000, plus a random number. Ids always increase."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """A new id, of 16 digits."""
        made = time.time_ns() // 1_000_000 * 1_000 + randbelow(1_000)
        self._last = max(made, self._last + 1)
        return self._last
