"""The backend that the settings name: a database file, or PostgreSQL, which is loaded where it is used."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module

import structlog

from bridge_server.assembly.room import Backend
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.events import Events
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import DataDirectoryError, DataDirectoryInUseError, held
from bridge_server.storage.migrate import is_up_to_date, migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase

log = structlog.get_logger()


def backend_of(settings: Settings, events: Events, clock: Clock | None = None) -> Backend:
    """The database that the settings name; a test hands in its own clock. Nothing is opened."""
    if settings.database is None:
        return SqliteBackend(settings, events, clock)
    module = import_module("bridge_server.assembly.postgres")
    backend: Backend = module.PostgresBackend(settings, events, clock)
    return backend


class SqliteBackend(Backend):
    """A database file in the data directory, which one server uses."""

    database: SqliteDatabase

    def __init__(self, settings: Settings, events: Events, clock: Clock | None) -> None:
        self.clock = clock or SystemClock()
        self.database = SqliteDatabase(settings.database_file, events, settings.database_limit)
        self._settings = settings

    @asynccontextmanager
    async def opened_for_server(self) -> AsyncIterator[None]:
        saved = migrate(self._settings.database_file, packaged_migrations())
        if saved is not None:
            log.info("schema_upgraded", backup=str(saved))
        async with self.database.opened():
            yield

    @asynccontextmanager
    async def opened_for_command(self, *, may_create: bool) -> AsyncIterator[None]:
        if not may_create and not self._settings.database_file.exists():
            raise DataDirectoryError(
                f"there is no database in {self._settings.data_dir}: name the server's data directory with "
                "--data-dir"
            )
        _bring_up_to_date(self._settings)
        async with self.database.opened():
            yield

    def outside_changes(self) -> Callable[[], Awaitable[bool]]:
        return self.database.has_changed_outside


def _bring_up_to_date(settings: Settings) -> None:
    migrations = packaged_migrations()
    if settings.database_file.exists() and is_up_to_date(settings.database_file, migrations):
        return
    try:
        with held(settings.data_dir):
            migrate(settings.database_file, migrations)
    except DataDirectoryInUseError as error:
        raise DataDirectoryError(
            f"{error}, or restart it: its database has an older schema than this command needs"
        ) from error
