"""An outbox at work on a database of its own, with a clock that the test moves."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from bridge_server.kernel.events import Events
from bridge_server.kit.testing.server import place_schema
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.fairness import Limits
from bridge_server.outbox.models import GoneHandlers, OutgoingMessage, Purpose
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from bridge_server.outbox.store import OutboxStore, enqueue
from bridge_server.storage.database import Database, Row, Transaction
from bridge_server.storage.sqlite import SqliteDatabase
from tests.support.clock import ManualClock
from tests.support.engines import database_kept, settings_over
from tests.support.waiting import eventually

OPEN = SenderSettings(
    timeout_seconds=120, signing_secret=None, allow_private=True, user_agent="Bridge-Server/1"
)
"""A receiver that hangs is given up later than any test waits, unless the test moves the time."""

HOOK = Purpose("hook")


@dataclass(slots=True)
class Outbox:
    """An outbox and its clock."""

    database: Database
    dispatcher: Dispatcher
    clock: ManualClock
    events: Events

    async def owe(self, *urls: str, prefix: str = "message", **fields: str | None) -> None:
        """Write a message with these fields for each URL in one transaction, as a room does."""
        now_ms = self.clock.now_ms()

        def work() -> Transaction[None]:
            for number, url in enumerate(urls):
                message = OutgoingMessage(f"{prefix}-{number}", url, b'{"topic":"t"}', HOOK, **fields)
                yield from enqueue(message, now_ms)

        await self.database.transaction(work)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock and let the dispatcher see it."""
        self.clock.advance(seconds)
        await self.dispatcher.wake()

    async def rows(self, columns: str) -> list[Row]:
        """These columns of every message, in the order of their ids."""
        return await self.database.read(f"SELECT {columns} FROM outbox ORDER BY id")

    async def comes_to(self, columns: str, expected: list[Row]) -> None:
        """Return once the table looks like this: a state that lasts until the test does something more.

        A message that failed waits, since the clock stands still. For a state that can pass by, wait for the
        event that brings it, or for a condition that stays true.
        """

        async def same() -> bool:
            return await self.rows(columns) == expected

        await eventually(same)


Start: TypeAlias = Callable[..., AbstractAsyncContextManager[Outbox]]
"""`running_outbox` over the test's database and clock."""


@asynccontextmanager
async def opened_database(file: Path, events: Events) -> AsyncIterator[Database]:
    """The database in the file, or the one that the engine of the run has for the file's directory."""
    url = settings_over(file.parent).database
    if url is None:
        place_schema(file)
        database = SqliteDatabase(file, events)
        async with database.opened():
            yield database
        return
    from bridge_server.assembly.postgres_overrides import OVERRIDES  # noqa: PLC0415 - asyncpg may be missing
    from bridge_server.storage.postgres.database import PostgresDatabase  # noqa: PLC0415 - as above

    shared = PostgresDatabase(url.get_secret_value(), events, OVERRIDES)
    with database_kept(file.parent):
        async with shared.opened():
            yield shared


@asynccontextmanager
async def running_outbox(
    file: Path,
    clock: ManualClock,
    *,
    make_store: Callable[[Database], OutboxStore] = OutboxStore,
    gone_handlers: GoneHandlers = MappingProxyType({}),
    sender_over: Callable[[Sender], Sender] = lambda sender: sender,
    limits: Limits | None = None,
    grace_seconds: float = 0.2,
) -> AsyncIterator[Outbox]:
    """Open the database and start a dispatcher; on leaving, stop and close both."""
    events = Events()
    async with opened_database(file, events) as database, WebhookSender(OPEN) as sender:
        store = make_store(database)
        delivery = partial(Delivery, store, sender_over(sender), clock, gone_handlers, lambda: 0.5)
        chosen = replace(limits or Limits(), grace_seconds=grace_seconds)
        dispatcher = Dispatcher(store, delivery, events, clock, limits=chosen)
        await dispatcher.start()
        try:
            yield Outbox(database, dispatcher, clock, events)
        finally:
            await dispatcher.stop()
