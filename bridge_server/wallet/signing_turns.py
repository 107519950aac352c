"""Signing takes turns with everything else that the event loop does.

A signature keeps the processor busy for as long as a whole request does. Were all that are wanted made at
once, whoever waits for a wake-up would wait for all of them, at each of its steps. So each turn of the event
loop serves a few calls of the wallet; the rest wait for the next turns, in the order in which they came.

A thread that works for others, as the database's does, gets the processor only when the event loop leaves
it. So while one does, turns are kept apart.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

_CALLS_PER_TURN = 2
_SECONDS_PER_CALL = 0.000_1
"""How long a batch may go on before it must wait for its turn again."""
_SECONDS_APART = 0.001
"""How long others have the processor for themselves, between two turns, while they need it."""


class SigningTurns:
    """Lets a few calls pass at each turn of the event loop; `others_work` tells whether threads do."""

    def __init__(self, others_work: Callable[[], bool]) -> None:
        self._others_work = others_work
        self._left = _CALLS_PER_TURN
        self._is_renewing = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Whether a call may pass at once; otherwise it has to wait."""
        if not self._left:
            return False
        self._left -= 1
        if not self._is_renewing:
            self._renew_next_turn()
        return True

    async def wait(self) -> None:
        """Return when a call that may not pass at once may."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if not self._is_renewing:
            self._renew_next_turn()
        await turn

    def _renew_next_turn(self) -> None:
        self._is_renewing = True
        asyncio.get_running_loop().call_soon(self._renew_unless_others_work)

    def _renew_unless_others_work(self) -> None:
        if self._others_work():
            asyncio.get_running_loop().call_later(_SECONDS_APART, self._renew)
        else:
            self._renew()

    def _renew(self) -> None:
        self._left = _CALLS_PER_TURN
        self._is_renewing = False
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # its client may have left
                self._left -= 1
                turn.set_result(None)
        if self._left < _CALLS_PER_TURN:
            self._renew_next_turn()


class BatchTurns:
    """The turns of one batch: as long as one lasts, its calls follow one another."""

    def __init__(self, turns: SigningTurns) -> None:
        self._turns = turns
        self._ends_at = 0.0

    async def next(self) -> None:
        """Return when the batch's next call may be served."""
        if perf_counter() < self._ends_at:
            return
        if not self._turns.take():
            await self._turns.wait()
        self._ends_at = perf_counter() + _SECONDS_PER_CALL
