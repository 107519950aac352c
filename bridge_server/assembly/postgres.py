"""The parts of the server that only PostgreSQL needs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bridge_server.assembly.carried_events import CARRIED
from bridge_server.assembly.postgres_overrides import HEAVY, OVERRIDES
from bridge_server.assembly.wallet_role import WalletRole
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.events import Events
from bridge_server.settings.checks import secret_of
from bridge_server.settings.settings import Settings
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.storage.postgres.buckets import SharedBuckets
from bridge_server.storage.postgres.clock import CorrectedClock, kept_right
from bridge_server.storage.postgres.crossing import opened_with_wake_ups
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.leases import LeasedDestinations
from bridge_server.storage.postgres.migrate import packaged_migrations, require_known
from bridge_server.storage.postgres.opening import examined, opened
from bridge_server.storage.postgres.outside import OutsideCommits
from bridge_server.storage.postgres.roles import Role
from bridge_server.storage.postgres.sweeping import sweeper_hold
from bridge_server.storage.refusal import DatabaseRefusedError
from bridge_server.web.shared_quotas import SharedQuotas

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
