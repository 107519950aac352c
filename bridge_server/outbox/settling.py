"""Deletes delivered messages from the outbox: the deliveries of a moment in one transaction.

A commit for each would cost more than its delivery, and delay every other write. If the server crashes before
the record is stored, the message is sent once more, under its message id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from bridge_server.outbox.models import DueMessage

_MOMENT_SECONDS = 0.02
_ENOUGH = 64
_TOO_MANY = 2_048


class Settling:
    """Collects deliveries for `forget`, which returns once their messages are deleted durably."""

    def __init__(self, forget: Callable[[Sequence[DueMessage]], Awaitable[None]]) -> None:
        self._forget = forget
        self._waiting: list[tuple[DueMessage, asyncio.Future[None]]] = []
        self._enough = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._unsettled = 0
        self._caught_up = asyncio.Event()
        self._caught_up.set()

    def delivered(self, due: DueMessage) -> asyncio.Future[None]:
        """Delete the message soon; the future is done once it is deleted."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((due, done))
        self._unsettled += 1
        if len(self._waiting) == _ENOUGH:
            self._enough.set()
        if self._unsettled == _TOO_MANY:
            self._caught_up.clear()
        if self._work is None:
            self._work = asyncio.create_task(self._forget_until_idle())
        return done

    @property
    def is_behind(self) -> bool:
        """Whether too many deliveries wait to be recorded for new ones to begin."""
        return self._unsettled >= _TOO_MANY

    async def caught_up(self) -> None:
        """Return once it is not behind."""
        await self._caught_up.wait()

    async def idle(self) -> None:
        """Return once every delivery is recorded."""
        if self._work is not None:
            await asyncio.wait([self._work])

    async def close(self) -> None:
        """Give up recording: a message whose delivery is not recorded by now stays due."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _forget_until_idle(self) -> None:
        try:
            while self._waiting:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._enough.wait(), _MOMENT_SECONDS)
                self._enough.clear()
                batch, self._waiting = self._waiting, []
                await self._forget([due for due, _ in batch])
                self._unsettled -= len(batch)
                if not self.is_behind:
                    self._caught_up.set()
                for _, done in batch:
                    if not done.done():
                        done.set_result(None)
        finally:
            self._work = None
