"""Coalesced calls: none is left out, and several at once become one."""

import asyncio
from collections.abc import Callable


class AtMostOnce:
    """Calls a function at once; after another call in the same `seconds`, at their end."""

    def __init__(self, function: Callable[[], None], seconds: float) -> None:
        self._function = function
        self._seconds = seconds
        self._rests_until = 0.0
        self._later: asyncio.TimerHandle | None = None

    def call(self) -> None:
        """Have the function called, soon at the latest."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._rests_until:
            self._run()
        else:
            self._later = loop.call_at(self._rests_until, self._run)

    def cancel(self) -> None:
        """Do not call the function any more, for what came until now."""
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _run(self) -> None:
        self._later = None
        self._rests_until = asyncio.get_running_loop().time() + self._seconds
        self._function()
