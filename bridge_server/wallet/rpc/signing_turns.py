"""Signing shares the event loop with other requests: one signature in each of its turns.

A signature keeps the processor busy for as long as a whole request does. Were all pending signatures made at
once, a long poll that is woken would wait for all of them, at each of its steps. So while other requests
wait, each turn of the event loop serves one call of the wallet; further calls wait for the next turns, first
come, first served.

A thread, such as the database's, gets the processor only when the event loop leaves it. So while a thread
works, there are pauses between the turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

_SECONDS_PER_CALL = 0.000_1
"""The time that a batch may take before it must wait for its next turn."""
_SECONDS_APART = 0.001
"""The pause between two turns, for threads that need the processor."""


class SigningTurns:
    """Lets one call pass at each turn of the event loop.

    `others_wait`: whether other requests wait; `others_work`: whether threads work.
    """

    def __init__(self, others_wait: Callable[[], bool], others_work: Callable[[], bool]) -> None:
        self._others_wait = others_wait
        self._others_work = others_work
        self._is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> asyncio.Future[None] | None:
        """The future that a call has to await for its turn; None when it may pass at once."""
        if not self._waiting and not self._others_wait() and not self._others_work():
            return None
        loop = asyncio.get_running_loop()
        if self._is_taken:
            turn = loop.create_future()
            self._waiting.append(turn)
            return turn
        self._is_taken = True
        loop.call_soon(self._end)
        return None

    def _end(self) -> None:
        if self._others_work():
            asyncio.get_running_loop().call_later(_SECONDS_APART, self._begin_next)
        else:
            self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its client may have left
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._end)
                return
        self._is_taken = False


class BatchTurns:
    """The turns of one batch: as long as one lasts, its calls follow one another."""

    def __init__(self, turns: SigningTurns) -> None:
        self._turns = turns
        self._ends_at = 0.0

    async def next(self) -> None:
        """Return when the batch's next call may be served."""
        if perf_counter() < self._ends_at:
            return
        turn = self._turns.take()
        await (asyncio.sleep(0) if turn is None else turn)
        self._ends_at = perf_counter() + _SECONDS_PER_CALL
