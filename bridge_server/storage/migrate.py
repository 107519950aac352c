"""Brings the schema up to date: numbered SQL files, applied in order, each in one transaction."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from bridge_server.storage.backup import copy_database, sync
from bridge_server.storage.connection import BUSY_TIMEOUT_SECONDS
from bridge_server.storage.data_directory import require_data

COMPANIONS = ("-wal", "-shm", "-journal")
"""The endings with which SQLite names the files beside a database."""


class NewerSchemaError(Exception):
    """The database was written by a newer version of this program."""


class Migration(NamedTuple):
    """One step: the schema version that it leads to, its file's name, and its SQL."""

    version: int
    name: str
    sql: str


def packaged_migrations() -> Sequence[Migration]:
    """The migrations of this version, in order."""
    return migrations_of("bridge_server.storage")


@cache
def migrations_of(engine: str) -> Sequence[Migration]:
    """The migrations in the package of an engine, in order."""
    folder = files(engine) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in names)


def migrate(database: Path, migrations: Sequence[Migration]) -> Path | None:
    """Create the schema, or upgrade it after copying the database beside itself; returns the path of the copy
    if one was made. Raises NewerSchemaError when the file is from a newer version; DataDirectoryError when it
    is empty; sqlite3.Error when a migration fails, which leaves the schema at the step before it, and no file
    where there was none.
    """
    if not database.exists():
        _create(database.resolve(), migrations)
    require_data(database)
    os.close(os.open(database, os.O_RDWR))
    with closing(_opened(database)) as connection:
        current = schema_version(connection)
        newest = migrations[-1].version
        if current > newest:
            raise _newer(database, current, newest)
        connection.execute("PRAGMA journal_mode = WAL")
        due = [migration for migration in migrations if migration.version > current]
        saved = _save(connection, database, current) if due and current > 0 else None
        for migration in due:
            _apply(connection, migration)
        return saved


def _opened(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(database, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS)


def is_up_to_date(database: Path, migrations: Sequence[Migration]) -> bool:
    """Whether the schema is this version's. Raises DataDirectoryError, NewerSchemaError, sqlite3.Error."""
    require_data(database)
    with closing(_opened(database)) as connection:
        current, newest = schema_version(connection), migrations[-1].version
    if current > newest:
        raise _newer(database, current, newest)
    return current == newest


def _create(database: Path, migrations: Sequence[Migration]) -> None:
    """Make the database under another name, renamed when whole: a start that is killed leaves none behind."""
    fresh = database.with_name(f"{database.name}.creating")
    _remove(fresh, "", *COMPANIONS)
    try:
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.execute("PRAGMA synchronous = OFF")  # the whole file is synchronised below
            for migration in migrations:
                _apply(connection, migration)
        sync(fresh)
        _remove(database, *COMPANIONS)  # SQLite would apply the log of a database that was deleted
        fresh.rename(database)
        sync(database.parent)
    finally:
        _remove(fresh, "", *COMPANIONS)


def _remove(database: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def _newer(database: Path, current: int, newest: int) -> NewerSchemaError:
    return NewerSchemaError(
        f"{database} has schema version {current}, and this program knows versions up to {newest}: "
        "run the newer program, or restore the backup that was made before the upgrade."
    )


def schema_version(connection: sqlite3.Connection) -> int:
    """The number of the last migration that the database has had; 0 before the first."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _save(connection: sqlite3.Connection, database: Path, version: int) -> Path:
    copy = database.with_name(f"{database.name}.before-upgrade-from-{version}")
    copy.unlink(missing_ok=True)  # left by an upgrade that failed: the database is still as it was then
    copy_database(connection, copy)
    return copy


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{migration.sql}\nPRAGMA user_version = {migration.version};\nCOMMIT;"
        )
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
