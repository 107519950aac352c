"""The parts of the server that only PostgreSQL needs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import structlog

from bridge_server.assembly.postgres_overrides import HEAVY, OVERRIDES
from bridge_server.assembly.room import Backend, OwnUrl, Room
from bridge_server.inbox.models import MarkedRead, SignedOut
from bridge_server.kernel.background import Stopping, running
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.kernel.signals import Touched
from bridge_server.kernel.sweeper import Hold
from bridge_server.notify.models import AllMarkedRead, Delivered
from bridge_server.outbox.models import OutboxChanged, OutboxCounted, OutboxGrew
from bridge_server.outbox.queues import Leases
from bridge_server.projects.models import ProjectChanged
from bridge_server.pubsub.v1_store import MessagesStored
from bridge_server.pubsub.v2_models import IrnMessagesStored, IrnReceiptsGiven, IrnReceiptsStored
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of
from bridge_server.storage.database import ChangedOutside, DatabaseRefusedError, Process
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.storage.postgres import processes as shared
from bridge_server.storage.postgres.buckets import SharedBuckets
from bridge_server.storage.postgres.clock import CorrectedClock, kept_right
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import examined, opened, packaged_migrations, require_known
from bridge_server.wallet.approvals import ApprovalsChanged
from bridge_server.wallet.transactions.states import TransactionsDue, TransactionsMoved, TransactionsPostponed
from bridge_server.web.limits import BucketsSaved, TokenBuckets
from bridge_server.web.shared_limits import SharedQuotas

_LEASE_BEYOND_DELIVERY_SECONDS = 10
_DELIVERY_MARGIN_SECONDS = 2
_CHECK_SECONDS = 2.0

log = structlog.get_logger()

CARRIED: tuple[type[DomainEvent], ...] = (
    Touched, Delivered, SignedOut, OutboxGrew,
    MessagesStored, IrnMessagesStored, IrnReceiptsGiven, IrnReceiptsStored,
    # The console's open pages load again after these.
    OutboxChanged, MarkedRead, AllMarkedRead, ProjectChanged,
    ApprovalsChanged, TransactionsMoved, TransactionsDue, TransactionsPostponed,
)  # fmt: skip
"""The events that the other processes on the database are to hear."""

KEPT: tuple[type[DomainEvent], ...] = (
    # Each process counts for itself.
    OutboxCounted,
    # A file's own: its token buckets, and the commands that change it.
    BucketsSaved,
    ChangedOutside,
)
"""The events that concern their process only."""


class PostgresBackend(Backend):
    """A PostgreSQL database, which several processes may share."""

    database: PostgresDatabase

    def __init__(self, settings: Settings, events: Events, clock: Clock | None) -> None:
        url = secret_of(settings.database)
        assert url is not None
        self.clock = clock or CorrectedClock(SystemClock())
        self.database = PostgresDatabase(
            url, events, OVERRIDES, direct_url=secret_of(settings.database_direct), heavy=HEAVY
        )
        self.database.clock = self.clock if isinstance(self.clock, CorrectedClock) else None
        self._direct_url = secret_of(settings.database_direct) or url
        self._settings, self._events = settings, events
        self._buckets: SharedQuotas | None = None

    def opened_for_server(self) -> AbstractAsyncContextManager[None]:
        return self._opened(may_create=True, hears=True)

    def opened_for_command(self, *, may_create: bool) -> AbstractAsyncContextManager[None]:
        return self._opened(may_create=may_create, hears=False)

    @asynccontextmanager
    async def _opened(self, *, may_create: bool, hears: bool) -> AsyncIterator[None]:
        """The database is open, its clock is right, and others hear of its commits; it `hears` of theirs."""
        database = self.database
        crossing = shared.opened_with_wake_ups(database, self._events, CARRIED, hears=hears)
        async with opened(crossing, self._direct_url, may_create=may_create):
            if database.clock is None:
                yield
                return
            async with kept_right(database.clock, database):
                yield

    def fault(self) -> str | None:
        async def examine() -> None:
            urls = map(secret_of, (self._settings.database, self._settings.database_direct))
            for url in dict.fromkeys(filter(None, urls)):
                async with examined(url) as connection:
                    await require_known(connection, packaged_migrations()[-1].version)

        try:
            asyncio.run(examine())
        except (DatabaseRefusedError, NewerSchemaError) as error:
            return str(error)
        return None

    def token_buckets(self, clock: Clock) -> TokenBuckets:
        database = self.database
        buckets = SharedBuckets(database.link, clock)
        self._buckets = SharedQuotas(buckets, clock, lambda: database.other_processes)
        return self._buckets

    def buckets_opened(self) -> AbstractAsyncContextManager[None]:
        """Tokens of the buckets that were leased and not used are given back at the end."""
        assert self._buckets is not None
        return self._buckets.running()

    def sweeper_hold(self) -> Hold:
        return shared.sweeper_hold(self.database)

    def outside_changes(self) -> Callable[[], Awaitable[bool]]:
        return shared.OutsideCommits(self.database).have_come

    def leases(self) -> Leases:
        settings, database = self._settings, self.database
        delivery_seconds = max(settings.webhook_timeout, settings.push_timeout)
        return shared.LeasedDestinations(
            database, lambda: database.number, delivery_seconds + _LEASE_BEYOND_DELIVERY_SECONDS,
            delivery_seconds + _DELIVERY_MARGIN_SECONDS,
        )  # fmt: skip

    def wallet_role(self) -> shared.Role:
        return shared.Role("wallet", self.database, is_wanted=self._settings.holds_wallet)

    def processes_room(self, own_url: OwnUrl, stopping: Stopping) -> Room:
        """Sweeps rows that other processes have left. The process ends when an upgrade leaves it behind."""
        processes, newest_known = shared.Processes(self.database), packaged_migrations()[-1].version
        keep = partial(_keep_row, processes, own_url, stopping, newest_known)
        return Room(name="processes", running=(lambda: running(keep()),), sweeps=(processes.sweep,))

    def own_number(self) -> int:
        return self.database.number

    async def processes(self) -> Sequence[Process]:
        return await shared.Processes(self.database).all()


async def _keep_row(
    processes: shared.Processes, own_url: OwnUrl, stopping: Stopping, newest_known: int
) -> None:
    """Keep the URL in the row, and end the process when it may not use the database any more."""
    url = await own_url.known()
    while True:
        try:
            oldest_program, written = await processes.read()
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
        await asyncio.sleep(_CHECK_SECONDS)
