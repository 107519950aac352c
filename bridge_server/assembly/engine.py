"""The database that the settings name and its opening, the wallet's role in it, and this process's URL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import NamedTuple, TypeAlias

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.events import Events
from bridge_server.kernel.sweeper import Hold, always
from bridge_server.outbox.queues import AllDestinations, Leases
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of
from bridge_server.storage.data_directory import held
from bridge_server.storage.database import Engine, Transaction
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.wallet.models import NoNodeError
from bridge_server.web.limits import Quotas, TokenBuckets

_POSTGRES = "bridge_server.assembly.postgres"

log = structlog.get_logger()

# The URL at which other processes reach this one, which is known once it listens.


class OwnUrl:
    """The URL that the settings name, or else the URL at which the process listens."""

    def __init__(self, chosen: str | None) -> None:
        self._url = chosen
        self._is_chosen = chosen is not None
        self._known = asyncio.Event()

    def announce(self, url: str) -> None:
        """Take the URL at which the process listens; it no longer changes."""
        if not self._is_chosen:
            self._url = url
        self._known.set()

    async def known(self) -> str:
        """The URL, once the process listens."""
        await self._known.wait()
        assert self._url is not None
        return self._url


# The wallet where several processes share a database: one of them has it, and the others forward calls.

Resources: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class WalletRole(NamedTuple):
    """The wallet's role, as this process has it or waits for it."""

    fence: Callable[[], Transaction[None]]
    """The first steps of each write of the wallet."""
    is_here: Callable[[], bool]
    """Whether this process has the wallet, ready to serve."""
    is_held: Callable[[], bool]
    """Whether this process has the wallet, ready or not, and no other one can have taken it over."""
    holder_url: Callable[[], Awaitable[str | None]]
    """The URL of the process that has the wallet, if another one has."""
    announce: Callable[[str], None]
    """Lets others know how they reach this process."""
    serve_forever: Callable[[Resources], Awaitable[None]]
    """Keeps the wallet's resources open whenever this process has the wallet."""
    first_look: Callable[[], Awaitable[None]]
    """Returns once it is known whether this process has the wallet at its start."""

    def require_held(self) -> None:
        """Raise NoNodeError where this process may not speak to the node for the wallet any more."""
        if not self.is_held():
            raise NoNodeError("Another process may have taken over the wallet: that one asks the node.")


@asynccontextmanager
async def served_in_turn(role: WalletRole, resources: Resources, own_url: OwnUrl) -> AsyncIterator[None]:
    """Have the wallet inside, or wait for it."""

    async def serve() -> None:
        await role.serve_forever(resources)

    async def announce() -> None:
        role.announce(await own_url.known())

    async with running(serve()), running(announce()):
        await role.first_look()
        yield


def clock_of(settings: Settings) -> Clock:
    """The machine's clock; with PostgreSQL, as the database server's corrects it."""
    if settings.database is None:
        return SystemClock()
    clock: Clock = import_module(_POSTGRES).corrected_clock()
    return clock


def engine_of(settings: Settings, events: Events, clock: Clock) -> Engine:
    """The database that the settings name; PostgreSQL's corrects the clock, if `clock_of` made it.

    Nothing is opened.
    """
    if settings.database is None:
        return SqliteDatabase(settings.database_file, events, settings.database_limit)
    engine: Engine = import_module(_POSTGRES).postgres_engine(settings, events, clock)
    return engine


@asynccontextmanager
async def opened_for_a_server(settings: Settings, database: Engine, events: Events) -> AsyncIterator[None]:
    """The database is brought up to date and open, and no other server uses the data directory.

    Raises DataDirectoryError, DatabaseRefusedError, NewerSchemaError, sqlite3.Error.
    """
    data_dir = settings.data_dir
    with held(data_dir) as mode_before:
        if mode_before is not None:
            log.warning(
                "data_directory_made_private",
                directory=str(data_dir), mode="0700", mode_before=f"{mode_before:04o}",
            )  # fmt: skip
        if settings.database is None:
            saved = migrate(settings.database_file, packaged_migrations())
            if saved is not None:
                log.info("schema_upgraded", backup=str(saved))
        is_file = settings.database is None
        async with database.opened() if is_file else opened_postgres(settings, database, events, hears=True):
            yield


def token_buckets_of(database: Engine, clock: Clock) -> TokenBuckets:
    """The token buckets of callers: in memory beside a file, and else in the database."""
    if isinstance(database, SqliteDatabase):
        return Quotas(clock)
    buckets: TokenBuckets = import_module(_POSTGRES).shared_quotas(database, clock)
    return buckets


def shared_buckets_open(buckets: TokenBuckets) -> AbstractAsyncContextManager[None]:
    """The token buckets in the database, whose charges can be made inside the context."""
    opened: AbstractAsyncContextManager[None] = import_module(_POSTGRES).shared_buckets_open(buckets)
    return opened


def sweeper_hold(database: Engine) -> Hold:
    """The lock that a sweep takes first: of several processes one sweeps at a time."""
    if isinstance(database, SqliteDatabase):
        return always
    hold: Hold = import_module(_POSTGRES).sweeper_hold(database)
    return hold


def opened_postgres(
    settings: Settings, database: Engine, events: Events, *, may_create: bool = True, hears: bool = False
) -> AbstractAsyncContextManager[None]:
    """The PostgreSQL database of the settings, brought up to date and open.

    Other processes hear of its commits; it `hears` of theirs if it waits for any. Without `may_create`, a
    database without any schema is refused. Raises DatabaseRefusedError, NewerSchemaError.
    """
    opened: AbstractAsyncContextManager[None] = import_module(_POSTGRES).opened_postgres(
        database, events, direct_url_of(settings), may_create=may_create, hears=hears
    )
    return opened


def outside_changes(database: Engine) -> Callable[[], Awaitable[bool]]:
    """A function that tells whether a command has committed something since it was last called."""
    if isinstance(database, SqliteDatabase):
        return database.has_changed_outside
    changes: Callable[[], Awaitable[bool]] = import_module(_POSTGRES).outside_changes(database)
    return changes


def leases_of(settings: Settings, database: Engine) -> Leases:
    """The outbox's destinations of this process: all of them, or the leased ones."""
    if isinstance(database, SqliteDatabase):
        return AllDestinations()
    leases: Leases = import_module(_POSTGRES).leases_of(settings, database)
    return leases


def wallet_role_of(settings: Settings, database: Engine) -> WalletRole | None:
    """The wallet's role among several processes; None where there is one process."""
    if isinstance(database, SqliteDatabase):
        return None
    role: WalletRole = import_module(_POSTGRES).wallet_role_of(settings, database)
    return role


def database_fault(settings: Settings) -> str | None:
    """The reason why a server could not use the PostgreSQL database; None if it could, or has none."""
    if settings.database is None:
        return None
    fault: str | None = import_module(_POSTGRES).database_fault(settings)
    return fault


def direct_url_of(settings: Settings) -> str:
    """The URL of the PostgreSQL database without a pooler."""
    url = secret_of(settings.database_direct or settings.database)
    assert url is not None
    return url
