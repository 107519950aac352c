"""The operator's composition root: what a command works with, on the database of a server that may run."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Signals
from bridge_server.projects.projects import Projects
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.settings import Settings
from bridge_server.storage.data_directory import DataDirectoryError, DataDirectoryInUseError, held
from bridge_server.storage.migrate import is_up_to_date, migrate, packaged_migrations
from bridge_server.storage.project_store import SqlProjectStore
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.storage.subscription_store import SqlSubscriptionStore


@dataclass(frozen=True, slots=True)
class Operations:
    """What an operator works with."""

    projects: Projects
    subscriptions: Subscriptions


@asynccontextmanager
async def operations(settings: Settings, *, may_create: bool = True) -> AsyncIterator[Operations]:
    """Open the database beside a running server, or bring it up to date when none runs.

    One that is not there is made only if that `may_create`.

    Raises DataDirectoryError, NewerSchemaError, sqlite3.Error.
    """
    if not may_create and not settings.database_file.exists():
        raise DataDirectoryError(
            f"there is no database in {settings.data_dir}: name the server's data directory with --data-dir"
        )
    _bring_up_to_date(settings)
    database = SqliteDatabase(settings.database_file, Signals())
    clock, ids = SystemClock(), IdMaker()
    async with database.opened():
        yield Operations(
            Projects(SqlProjectStore(database), clock, ids, os.urandom),
            Subscriptions(SqlSubscriptionStore(database), clock, ids),
        )


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
