"""Resets the server and moves its clock: both concern every room."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeAlias

from bridge_server.kernel.errors import Fault, InvalidInputError, UnavailableError
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.storage.database import Database, Statement, Transaction, scalar, transaction
from bridge_server.testmode.instruments import ClockMove, ClockState, Instruments

_PATIENCE_SECONDS = 25.0
_EARLIEST_US = 946_684_800_000_000  # the year 2000
_LATEST_US = 7_258_118_399_999_999  # the end of 2199

# Every table but irn_id_blocks, whose ids no client may be sent twice, and the tables of the console's
# sign-ins (console_links, console_sessions): a reset from the console does not sign the operator out.
# Rows that refer to others go before them: nothing then cascades.
TABLES = (
    "call_statuses", "calls", "sessions",
    "irn_messages", "irn_subscriptions", "irn_calls",
    "topic_webhooks", "topic_messages", "outbox", "outbox_hosts", "buckets",
    "missed_accounts", "deliveries", "sendings", "covered_accounts", "notifications",
    "subscriptions", "type_set_members", "type_sets", "notification_types",
    "account_buckets", "daily_figures", "project_secrets", "projects",
    "sign_in_nonces", "inbox_tokens", "devices", "accounts",
    "push_registrations", "wallet_approvals", "wallet_transactions",
)  # fmt: skip

EMPTY = tuple(f"DELETE FROM {table}" for table in TABLES)  # noqa: S608 - the names are above
"""Delete every row of every table."""

COUNT = f"SELECT {' + '.join(f'(SELECT COUNT(*) FROM {table})' for table in TABLES)}"  # noqa: S608 - as above
"""The number of rows in all tables together."""


class EveryTable:
    """All tables of all rooms."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @transaction
    def empty(self) -> Transaction[None]:
        """Delete every row. Raises UnavailableError."""
        for delete_all in EMPTY:
            yield Statement(delete_all)

    async def rows(self) -> int:
        """The number of rows. Raises UnavailableError."""
        return scalar(int, await self.database.read(COUNT))


Work: TypeAlias = Callable[[], Awaitable[object]]


class Controls:
    """Resets the server and moves its clock, one after the other."""

    def __init__(
        self,
        instruments: Instruments,
        tables: EveryTable,
        signals: Signals,
        emptied: Sequence[Callable[[], AbstractAsyncContextManager[object]]],
        sweeper: Sweeper,
        catch_ups: Sequence[Work],
    ) -> None:
        self._instruments = instruments
        self._tables = tables
        self._signals = signals
        self._emptied = emptied
        self._sweeper = sweeper
        self._catch_ups = catch_ups
        self._turn = asyncio.Lock()

    def reading(self) -> ClockState:
        """The time of the server's clock, and whether it is frozen."""
        clock = self._instruments.clock
        return ClockState(clock.now_ms(), clock.is_frozen)

    async def reset(self) -> ClockState:
        """Empty tables and memory, end parked requests, set the clock right. Raises UnavailableError."""
        async with self._turn, AsyncExitStack() as stack:
            self._instruments.faults.replace(())  # one of the disk would keep the tables from being emptied
            self._signals.wake_all(changed=False)
            self._instruments.clock.put_right()
            await self._sweeper.none_under_way()  # one by a clock that was ahead would delete what comes next
            for emptied in self._emptied:
                await stack.enter_async_context(emptied())
            await self._tables.empty()
        self._instruments.sent.clear()
        self._instruments.traffic.clear()
        return self.reading()

    async def move(self, move: ClockMove) -> ClockState:
        """Move the clock, and finish what became due. Raises UnavailableError, InvalidInputError."""
        clock, sent = self._instruments.clock, self._instruments.sent
        async with self._turn, _in_time():
            await self._catch_up()  # an attempt that is under way belongs to the time before
            delivered_before = sent.delivered
            now_us = clock.now_us() + move.advance_us if move.now_us is None else move.now_us
            if not _EARLIEST_US <= now_us <= _LATEST_US:
                pointer = "#/advance" if move.now_us is None else "#/now"
                fault = Fault(pointer, "must lead to a year from 2000 to 2199")
                raise InvalidInputError("The clock cannot be set.", (fault,))
            if move.now_us is None:
                clock.advance(move.advance_us)
            else:
                clock.set(now_us, frozen=move.frozen)
            self._signals.wake_all(changed=True)  # long polls look whether they wait for something expired
            await self._catch_up()
            rows = await self._tables.rows()
            await self._sweeper.sweep(pauses=False)
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
