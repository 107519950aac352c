"""Signing takes turns with everything else that the event loop does, as long as there is something else.

A signature keeps the processor busy for as long as a whole request does. Were all that are wanted made at
once, whoever waits for a wake-up would wait for all of them, at each of its steps. So while others wait, each
turn of the event loop serves one call of the wallet; the rest wait for the next turns, in the order in which
they came.

A thread that works for others, as the database's does, gets the processor only when the event loop leaves
it. So while one does, turns are kept apart.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

_SECONDS_PER_CALL = 0.000_1
"""How long a batch may go on before it must wait for its turn again."""
_SECONDS_APART = 0.001
"""How long others have the processor for themselves, between two turns, while they need it."""


class SigningTurns:
    """Lets one call pass at each turn of the event loop.

    `others_wait` tells whether there is anybody to take turns with; `others_work`, whether threads work.
    """

    def __init__(self, others_wait: Callable[[], bool], others_work: Callable[[], bool]) -> None:
        self._others_wait = others_wait
        self._others_work = others_work
        self._is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> asyncio.Future[None] | None:
        """What a call has to await for its turn; None when it may pass at once."""
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
