"""The numbers of pending messages and of dead letters in a database that several processes change.

What one process knows of them is right when it counts, and wrong as soon as another one queues or delivers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TypeAlias

from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox.stock import Stock

StockOf: TypeAlias = Callable[[], Awaitable[Stock]]
"""Gives the numbers of this moment."""

_LONG_SECONDS = 0.1
_REST = 20
"""Counts that take long take no more than this part of the time."""


class CountedStock:
    """The count of the database, made when it is asked for. One that took long is kept for a while."""

    def __init__(self, count: StockOf) -> None:
        self._count = count
        self._counting = asyncio.Lock()
        self._known = Stock()
        self._rests_until = 0.0

    async def now(self) -> Stock:
        """The numbers; while the database is away, those that were counted last."""
        async with self._counting:
            began = perf_counter()
            if began < self._rests_until:
                return self._known
            try:
                self._known = await self._count()
            except UnavailableError:
                return self._known
            took = perf_counter() - began
            self._rests_until = began + _REST * took if took > _LONG_SECONDS else 0.0
            return self._known
