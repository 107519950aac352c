"""Deletes sessions and calls that have expired, without an index of expiries: by walking through the tables.

An index would be written at every change, and read once a minute. Rows lie in the order in which they were
made, which is nearly the order in which they expire; living rows are passed over.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from bridge_server.kernel.sweeper import Sweep
from bridge_server.relay.models import SweptSlice
from bridge_server.relay.sweep_store import RelaySweepStore

_SLICE = 50
_SPAN = 1_000
_PATIENCE = 100_000

SweepSlice: TypeAlias = Callable[[int, int, int, int], Awaitable[SweptSlice]]
"""Sweeps a slice as of a time: after which number, how many numbers to look at, how many rows to delete."""


def relay_sweeps(store: RelaySweepStore) -> tuple[Sweep, ...]:
    """The sweeps of the relay. Calls go before their sessions."""

    async def sweep_webhooks(now_ms: int) -> int:
        return await store.sweep_webhooks(now_ms, _SLICE)

    return Walk(store.sweep_calls).sweep, Walk(store.sweep_sessions).sweep, sweep_webhooks


class Walk:
    """Goes round a table. A round that passes over very many living rows is continued at the next sweep."""

    def __init__(self, sweep_slice: SweepSlice, span: int = _SPAN, patience: int = _PATIENCE) -> None:
        self._sweep_slice = sweep_slice
        self._span = span
        self._patience = patience
        self._after = 0
        self._began_after = 0
        self._came_to_the_end = False
        self._passed = 0  # since a row was last deleted

    async def sweep(self, now_ms: int) -> int:
        """Sweep the next slice. Returns how many numbers were looked at; 0 when it is enough for now."""
        slice_ = await self._sweep_slice(now_ms, self._after, self._span, _SLICE)
        self._passed = 0 if slice_.deleted else self._passed + self._span
        if slice_.last is None:
            is_over = self._came_to_the_end or self._began_after == 0
            self._after, self._came_to_the_end = 0, True
        else:
            is_over = self._came_to_the_end and slice_.last >= self._began_after
            self._after = slice_.last
        if is_over or self._passed >= self._patience:
            self._began_after, self._came_to_the_end, self._passed = self._after, False, 0
            return 0
        return self._span
