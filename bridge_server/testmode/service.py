"""Reset and clock: both concern every room."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeAlias

from bridge_server.kernel.clock import MovableClock
from bridge_server.kernel.errors import Fault, InvalidInputError, UnavailableError
from bridge_server.kernel.signals import Signals
from bridge_server.testmode.instruments import Instruments
from bridge_server.testmode.models import ClockMove, ClockState
from bridge_server.testmode.store import EveryTable

Emptied: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""Entered before the tables are emptied, and left afterwards."""
Work: TypeAlias = Callable[[], Awaitable[object]]

_PATIENCE_SECONDS = 25.0
_EARLIEST_US = 946_684_800_000_000
_LATEST_US = 7_258_118_399_999_999


class Controls:
    """Resets the server and moves its clock, one after the other."""

    def __init__(
        self,
        instruments: Instruments,
        tables: EveryTable,
        signals: Signals,
        emptied: Sequence[Emptied],
        sweep: Work,
        catch_ups: Sequence[Work],
    ) -> None:
        self._instruments = instruments
        self._tables = tables
        self._signals = signals
        self._emptied = emptied
        self._sweep = sweep
        self._catch_ups = catch_ups
        self._turn = asyncio.Lock()

    def reading(self) -> ClockState:
        """The time that the server goes by."""
        clock = self._instruments.clock
        return ClockState(clock.now_ms(), clock.is_frozen)

    async def reset(self) -> ClockState:
        """Empty tables and memory, end parked requests, and go by the machine's clock.

        Raises UnavailableError.
        """
        async with self._turn, AsyncExitStack() as stack:
            self._instruments.faults.replace(())  # one of the disk would keep the tables from being emptied
            self._signals.wake_all(changed=False)
            for emptied in self._emptied:
                await stack.enter_async_context(emptied())
            await self._tables.empty()
            self._instruments.clock.put_right()
        self._instruments.sent.clear()
        self._instruments.traffic.clear()
        return self.reading()

    async def move(self, move: ClockMove) -> ClockState:
        """Move the clock, and return when everything that became due is done. Raises UnavailableError, and
        InvalidInputError for a time that is out of bounds.
        """
        clock, sent = self._instruments.clock, self._instruments.sent
        async with self._turn, _in_time():
            await self._catch_up()  # an attempt that is under way belongs to the time before
            delivered_before = sent.delivered
            _move(clock, move)
            self._signals.wake_all(changed=True)  # long polls look whether they wait for something expired
            await self._catch_up()
            rows = await self._tables.rows()
            await self._sweep()
            swept = max(0, rows - await self._tables.rows())
            await self._catch_up()  # what the sweeps have caused
        return ClockState(clock.now_ms(), clock.is_frozen, swept, sent.delivered - delivered_before)

    async def _catch_up(self) -> None:
        for catch_up in self._catch_ups:
            await catch_up()


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            yield
    except TimeoutError as error:
        raise UnavailableError(
            f"What is due is not done within {_PATIENCE_SECONDS:.0f} s: a receiver or the node may hang. "
            "GET /_test/clock says whether the clock was moved."
        ) from error


def _move(clock: MovableClock, move: ClockMove) -> None:
    now_us = clock.now_us() + move.advance_us if move.now_us is None else move.now_us
    if not _EARLIEST_US <= now_us <= _LATEST_US:
        fault = Fault(
            "#/advance" if move.now_us is None else "#/now", "must lead to a year from 2000 to 2199"
        )
        raise InvalidInputError("The clock cannot be set.", (fault,))
    if move.now_us is None:
        clock.advance(move.advance_us)
    else:
        clock.set(now_us, frozen=move.frozen)
