"""Ids of JSON-RPC requests as the published clients of generations 1.x and 2.x make them."""

import time
from secrets import randbelow


class PayloadIds:
    """Milliseconds since the epoch times 1,000, plus chance. Each id is larger than the one before."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """A new id, of 16 digits."""
        made = time.time_ns() // 1_000_000 * 1_000 + randbelow(1_000)
        self._last = max(made, self._last + 1)
        return self._last
