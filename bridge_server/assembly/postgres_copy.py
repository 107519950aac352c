"""The copy of an SQLite database to PostgreSQL, while no server uses either."""

import asyncio
from collections.abc import Mapping

from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import held
from bridge_server.storage.database import DatabaseRefusedError
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.copying import Report, copy_into, rows_of
from bridge_server.storage.postgres.migrate import MigrationError, examined
from bridge_server.storage.postgres.migrate import migrate as migrate_postgres


def copied_to_postgres(settings: Settings, url: str, report: Report) -> Mapping[str, int]:
    """Copy the database file of the settings to the database of the URL; returns the rows of each table.

    Raises DataDirectoryError if a server uses the file; DatabaseRefusedError, NewerSchemaError,
    sqlite3.Error.
    """
    with held(settings.data_dir):
        migrate(settings.database_file, packaged_migrations())
        return asyncio.run(_copied(settings, url, report))


def rows_in(settings: Settings) -> int:
    """The number of rows to copy. Raises sqlite3.Error."""
    return rows_of(settings.database_file)


async def _copied(settings: Settings, url: str, report: Report) -> Mapping[str, int]:
    async with examined(url) as connection:
        try:
            await migrate_postgres(connection)
        except MigrationError as error:
            raise DatabaseRefusedError(str(error)) from error
        return await copy_into(connection, settings.database_file, report)
