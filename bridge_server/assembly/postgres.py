"""The parts of the server that only PostgreSQL needs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import structlog

from bridge_server.assembly.engine import OwnUrl, WalletRole
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.postgres_overrides import HEAVY, OVERRIDES
from bridge_server.assembly.room import Room
from bridge_server.inbox.models import MarkedRead, SignedOut
from bridge_server.kernel.background import Stopping, running
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.kernel.signals import Touched
from bridge_server.notify.models import AllMarkedRead, Delivered
from bridge_server.outbox.models import OutboxChanged, OutboxCounted, OutboxGrew
from bridge_server.projects.models import ProjectChanged
from bridge_server.pubsub.v1_store import MessagesStored
from bridge_server.pubsub.v2_models import IrnMessagesStored, IrnReceiptsGiven, IrnReceiptsStored
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of
from bridge_server.storage.database import ChangedOutside, DatabaseRefusedError, Process
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.storage.postgres.buckets import SharedBuckets
from bridge_server.storage.postgres.clock import CorrectedClock, kept_right
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import examined, opened, packaged_migrations, require_known
from bridge_server.storage.postgres.processes import (
    LeasedDestinations,
    OutsideCommits,
    Processes,
    Role,
    opened_with_wake_ups,
    sweeper_hold,
)
from bridge_server.wallet.approvals import ApprovalsChanged
from bridge_server.wallet.transactions.states import (
    TransactionsMoved,
    TransactionsOwed,
    TransactionsPostponed,
)
from bridge_server.web.limits import BucketsSaved
from bridge_server.web.shared_limits import SharedQuotas

__all__ = [
    "corrected_clock",
    "database_fault",
    "leases_of",
    "opened_postgres",
    "outside_changes",
    "postgres_engine",
    "shared_buckets_open",
    "shared_quotas",
    "sweeper_hold",
    "wallet_role_of",
]

_LEASE_BEYOND_DELIVERY_SECONDS = 10
_DELIVERY_MARGIN_SECONDS = 2
_LOOK_SECONDS = 2.0

log = structlog.get_logger()

CARRIED: tuple[type[DomainEvent], ...] = (
    Touched,
    Delivered,
    SignedOut,
    OutboxGrew,
    MessagesStored,
    IrnMessagesStored,
    IrnReceiptsGiven,
    IrnReceiptsStored,
    # The console's open pages load again after these.
    OutboxChanged,
    MarkedRead,
    AllMarkedRead,
    ProjectChanged,
    ApprovalsChanged,
    TransactionsMoved,
    TransactionsOwed,
    TransactionsPostponed,
)
"""The events that the other processes on the database are to hear."""

KEPT: tuple[type[DomainEvent], ...] = (
    # Each process counts for itself.
    OutboxCounted,
    # A file's own: its token buckets, and the commands that change it.
    BucketsSaved,
    ChangedOutside,
)
"""The events that concern their process only."""


def postgres_engine(settings: Settings, events: Events, clock: Clock) -> PostgresDatabase:
    """The database that the settings name, which corrects the clock if it can be. Nothing is opened."""
    url = secret_of(settings.database)
    assert url is not None
    database = PostgresDatabase(
        url, events, OVERRIDES, direct_url=secret_of(settings.database_direct), heavy=HEAVY
    )
    database.clock = clock if isinstance(clock, CorrectedClock) else None
    return database


@asynccontextmanager
async def opened_postgres(
    database: PostgresDatabase, events: Events, url: str, *, may_create: bool, hears: bool
) -> AsyncIterator[None]:
    """The database, brought up to date and open; its clock is right.

    Other processes hear of its commits; it `hears` of theirs if it waits for any. A database without a schema
    is refused unless `may_create`. Raises DatabaseRefusedError, NewerSchemaError.
    """
    crossing = opened_with_wake_ups(database, events, CARRIED, hears=hears)
    async with opened(crossing, url, may_create=may_create):
        if database.clock is None:
            yield
            return
        async with kept_right(database.clock, database):
            yield


def outside_changes(database: PostgresDatabase) -> Callable[[], Awaitable[bool]]:
    """A function that tells whether a command has committed something since it was last called."""
    return OutsideCommits(database).have_come


def corrected_clock() -> CorrectedClock:
    """The machine's clock, as the database server's corrects it while the database is open."""
    return CorrectedClock(SystemClock())


def shared_quotas(database: PostgresDatabase, clock: Clock) -> SharedQuotas:
    """The token buckets in the database."""
    return SharedQuotas(SharedBuckets(database.link, clock), clock, lambda: database.other_processes)


def shared_buckets_open(quotas: SharedQuotas) -> AbstractAsyncContextManager[None]:
    """Tokens of the buckets that were leased and not used are given back at the end."""
    return quotas.running()


def leases_of(settings: Settings, database: PostgresDatabase) -> LeasedDestinations:
    """The outbox's destinations that this process leases."""
    delivery_seconds = max(settings.webhook_timeout, settings.push_timeout)
    return LeasedDestinations(
        database,
        lambda: database.number,
        delivery_seconds + _LEASE_BEYOND_DELIVERY_SECONDS,
        delivery_seconds + _DELIVERY_MARGIN_SECONDS,
    )


def database_fault(settings: Settings) -> str | None:
    """The reason why a server with these settings could not use the database; None if it could."""
    try:
        asyncio.run(_examine(settings))
    except (DatabaseRefusedError, NewerSchemaError) as error:
        return str(error)
    return None


async def _examine(settings: Settings) -> None:
    for url in dict.fromkeys(filter(None, map(secret_of, (settings.database, settings.database_direct)))):
        async with examined(url) as connection:
            await require_known(connection, packaged_migrations()[-1].version)


def wallet_role_of(settings: Settings, database: PostgresDatabase) -> WalletRole:
    """The wallet's role, which one process has at a time."""
    role = Role("wallet", database, is_wanted=settings.holds_wallet)
    return WalletRole(
        fence=role.fence,
        is_here=lambda: role.is_served,
        is_held=lambda: role.is_held,
        holder_url=role.holder_url,
        announce=role.announce,
        serve_forever=role.serve_forever,
        first_look=role.first_look,
    )


# Each process on a PostgreSQL database has its row there, and ends when an upgrade leaves it behind.


def postgres_processes_room(foundation: Foundation) -> Room:
    """The row of this process, and the removal of rows that other processes have left."""
    assert isinstance(foundation.database, PostgresDatabase)
    processes, newest_known = Processes(foundation.database), packaged_migrations()[-1].version
    keep = partial(_keep_row, processes, foundation.own_url, foundation.stopping, newest_known)
    return Room(name="processes", running=(lambda: running(keep()),), sweeps=(processes.sweep,))


def number_in(database: PostgresDatabase) -> Callable[[], int]:
    """Gives the number of this process, once the database is open."""
    return lambda: database.number


async def processes_on(database: PostgresDatabase) -> Sequence[Process]:
    """The servers on the database, oldest first."""
    return await Processes(database).all()


async def _keep_row(processes: Processes, own_url: OwnUrl, stopping: Stopping, newest_known: int) -> None:
    """Keep the URL in the row, and end the process when it may not use the database any more."""
    url = await own_url.known()
    while True:
        try:
            oldest_program, written = await processes.look()
            if oldest_program > newest_known:
                stopping.want(
                    f"the database was upgraded, and a program must know version {oldest_program} of its "
                    f"schema; this one knows versions up to {newest_known}: start the newer program"
                )
                return
            if written != url:
                await processes.announce(url)
        except UnavailableError as error:
            log.info("processes_not_seen", reason=error.detail)
        await asyncio.sleep(_LOOK_SECONDS)
