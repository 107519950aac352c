"""A room: what the server has to know of one subject. A backend: what depends on the kind of database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import structlog

from bridge_server.kernel.background import Stopping
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.events import Events
from bridge_server.kernel.sweeper import Hold, Sweep, always
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import GoneHandlers
from bridge_server.outbox.queues import AllDestinations, Leases
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import DataDirectoryError, DataDirectoryInUseError, held
from bridge_server.storage.database import Engine, Process, Transaction
from bridge_server.storage.migrate import is_up_to_date, migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.web.limits import Quotas, TokenBuckets
from bridge_server.web.metrics import Families, Gauges
from bridge_server.web.routes import Route

log = structlog.get_logger()

_NOTHING: Mapping[Any, Any] = MappingProxyType({})

Running: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""Opens a resource or starts background work; leaving the context closes it."""


@asynccontextmanager
async def afterwards(work: Callable[[], None]) -> AsyncIterator[None]:
    """A context that does the work when it is left."""
    yield
    work()


class Room(NamedTuple):
    """A part of the server with one subject. It leaves empty whatever it does not need."""

    name: str
    routes: tuple[Route, ...] = ()
    """The endpoints."""
    lan_routes: tuple[Route, ...] = ()
    """The endpoints on the listener that `dev --lan` adds."""
    has_own_port: bool = False
    """Whether its endpoints are on a port of their own, and not on the server's."""
    running: tuple[Running, ...] = ()
    """Opened in this order when the server starts, and closed in reverse when it has stopped."""
    stop: Callable[[], None] | None = None
    """Called when the server begins to stop, while requests are still being answered."""
    emptied: tuple[Running, ...] = ()
    """Entered before test mode empties the database, and left afterwards: the room forgets what it keeps in
    memory of the rows, and its sockets and streams end. Called again at each reset.
    """
    catch_up: Callable[[], Awaitable[None]] | None = None
    """Does at once what has become due by the clock, when test mode has moved it."""
    sweeps: tuple[Sweep, ...] = ()
    """Delete what has expired, once every `sweep_interval`."""
    gauges: Gauges = dict
    """The room's figures for `/metrics`."""
    families: Families | None = None
    """Further figures for `/metrics`: figures with labels, and figures that are read from the database."""
    totals: frozenset[str] = frozenset()
    """Names of the figures that begin at zero and only grow."""
    troubles: Callable[[], Sequence[str]] = tuple
    """Faults that last until an operator mends them; `/readyz` prints them."""
    senders: Mapping[str, Sender] = _NOTHING
    """Deliver messages of the outbox, by the schemes of their URLs."""
    clients: tuple[Running, ...] = ()
    """HTTP clients of the senders: open before the outbox delivers, closed after its last delivery."""
    gone_handlers: GoneHandlers = _NOTHING
    """Called with messages whose receiver answered that it is gone (410), by the purpose of the message."""


@dataclass(frozen=True, slots=True)
class DemoProject:
    """A project that is there whenever the server answers. `types` are names by their ids."""

    project_id: str
    name: str
    secret: str
    types: Mapping[str, str]
    account: str | None = None
    """The account (CAIP-10) that is subscribed from the start, and has a first notification."""


# Several processes can share a PostgreSQL database: each has a URL for the others, and one has the wallet.


class OwnUrl:
    """The URL that the settings name, or else the URL at which the process listens."""

    def __init__(self, chosen: str | None) -> None:
        self._url = chosen or ""
        self._known = asyncio.Event()

    def announce(self, url: str) -> None:
        """Take the URL at which the process listens; it no longer changes."""
        self._url = self._url or url
        self._known.set()

    async def known(self) -> str:
        """The URL, once the process listens."""
        await self._known.wait()
        return self._url


class WalletRole(Protocol):
    """The wallet's role, as this process has it or waits for it: see `Role` in PostgreSQL's `processes`."""

    @property
    def is_held(self) -> bool: ...
    @property
    def is_served(self) -> bool: ...
    def fence(self) -> Transaction[None]: ...
    def announce(self, url: str) -> None: ...
    async def holder_url(self) -> str | None: ...
    async def known(self) -> None: ...
    def serve_forever(
        self, resources: Callable[[], AbstractAsyncContextManager[None]]
    ) -> Coroutine[Any, Any, None]: ...


class Backend:
    """The parts that depend on the kind of database: here a file in the data directory, for one process."""

    clock: Clock
    """The clock of the machine, corrected where the database server's is known."""
    database: Engine

    def __init__(self, settings: Settings, events: Events, clock: Clock | None) -> None:
        self._settings = settings
        self._file = SqliteDatabase(settings.database_file, events, settings.database_limit)
        self.clock, self.database = clock or SystemClock(), self._file

    def opened_for_server(self) -> AbstractAsyncContextManager[None]:
        """The up-to-date database, open. Raises DatabaseRefusedError, NewerSchemaError, sqlite3.Error."""
        return self._file_opened(self._upgrade)

    def opened_for_command(self, *, may_create: bool) -> AbstractAsyncContextManager[None]:
        """The database, brought up to date and open, beside a server that may use it; it must exist unless
        `may_create`. Raises DataDirectoryError, DatabaseRefusedError, NewerSchemaError, sqlite3.Error.
        """
        return self._file_opened(partial(self._bring_up_to_date, may_create))

    def outside_changes(self) -> Callable[[], Awaitable[bool]]:
        """A function that tells whether a command has committed something since it was last called."""
        return self._file.has_changed_outside

    def fault(self) -> str | None:
        """The reason why a server could not use PostgreSQL; None if it could, and for a file."""
        return None

    def token_buckets(self, clock: Clock) -> TokenBuckets:
        """The token buckets of callers: in memory beside a file, and else in the database."""
        return Quotas(clock)

    def buckets_opened(self) -> AbstractAsyncContextManager[None]:
        """The token buckets can be charged inside, where the database has them."""
        return nullcontext()

    def sweeper_hold(self) -> Hold:
        """The lock that a sweep takes first: of several processes one sweeps at a time."""
        return always

    def leases(self) -> Leases:
        """The outbox's destinations of this process: all of them, or the leased ones."""
        return AllDestinations()

    def wallet_role(self) -> WalletRole | None:
        """The wallet's role among several processes; None where there is one process."""
        return None

    def processes_room(self, own_url: OwnUrl, stopping: Stopping) -> Room:
        """The row of this process among the others' rows; an empty room beside a file."""
        return Room(name="processes")

    def own_number(self) -> int:
        """The number of this process among the servers on a PostgreSQL database; 0 beside a file."""
        return 0

    async def processes(self) -> Sequence[Process]:
        """The servers on a PostgreSQL database, oldest first; a file's are not listed."""
        return ()

    def _upgrade(self) -> None:
        saved = migrate(self._settings.database_file, packaged_migrations())
        if saved is not None:
            log.info("schema_upgraded", backup=str(saved))

    def _bring_up_to_date(self, may_create: bool) -> None:
        file, data_dir = self._settings.database_file, self._settings.data_dir
        migrations = packaged_migrations()
        if not may_create and not file.exists():
            advice = "name the server's data directory with --data-dir"
            raise DataDirectoryError(f"there is no database in {data_dir}: {advice}")
        if file.exists() and is_up_to_date(file, migrations):
            return
        try:
            with held(data_dir):
                migrate(file, migrations)
        except DataDirectoryInUseError as error:
            reason = "its database has an older schema than this command needs"
            raise DataDirectoryError(f"{error}, or restart it: {reason}") from error

    @asynccontextmanager
    async def _file_opened(self, prepare: Callable[[], None]) -> AsyncIterator[None]:
        prepare()
        async with self._file.opened():
            yield
