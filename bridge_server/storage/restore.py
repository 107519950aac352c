"""A backup takes the place of the database, which is kept beside it; and the state of a database file."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bridge_server.kernel.values import dataclass
from bridge_server.storage.backup import copy_database, read_only, sync
from bridge_server.storage.connection import LogFile
from bridge_server.storage.data_directory import held
from bridge_server.storage.migrate import COMPANIONS, Migration, schema_version

_WHOLE_CHECK_BYTES = 2**30
"""The largest file that is checked wholly. Comparing the indexes of a larger one would take minutes."""


class RestoreError(Exception):
    """The file cannot take the database's place, and nothing was changed. The text names the reason."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The database after a restore: its schema version, its size, and the place of the former database."""

    schema: int
    size_bytes: int
    kept: Path | None
    """The file of the former database; None if there was none."""


def restore(file: Path, database: Path, stamp: str, migrations: Sequence[Migration]) -> Restored:
    """Put a copy of the file into the database's place; `stamp` is a part of the kept file's name. Raises
    RestoreError; DataDirectoryInUseError while a server runs; DataDirectoryError.
    """
    schema = checked_schema(file, migrations)
    if database.exists() and file.samefile(database):
        raise RestoreError(f"{file} is the database itself: name a backup of it")
    with held(database.parent):
        fresh = database.with_name(f"{database.name}.restoring")
        fresh.unlink(missing_ok=True)
        try:
            with closing(read_only(file)) as connection:
                copy_database(connection, fresh)
            kept = _set_aside(database, stamp)
            fresh.replace(database)
            sync(database.parent)
        except (sqlite3.Error, OSError) as error:
            raise RestoreError(f"{file} could not be restored: {error}") from error
        finally:
            fresh.unlink(missing_ok=True)
    return Restored(schema, database.stat().st_size, kept)


def checked_schema(file: Path, migrations: Sequence[Migration]) -> int:
    """The schema version of a database of this server that is whole. Raises RestoreError."""
    if not file.is_file():
        raise RestoreError(f"there is no file {file}: name a file that `backup` has made")
    try:
        with closing(read_only(file)) as connection:
            version = schema_version(connection)
            if version > migrations[-1].version:
                known = f"this program knows versions up to {migrations[-1].version}"
                advice = "restore it with the newer program"
                raise RestoreError(f"{file} has schema version {version}, and {known}: {advice}")
            if not version or not _tables_of(version, migrations) <= _tables(connection):
                advice = "name a file that `backup` has made"
                raise RestoreError(f"{file} is no database of this server: {advice}")
            verdict = " ".join(connection.execute("PRAGMA integrity_check(1)").fetchone()[0].split())
    except (sqlite3.Error, OSError) as error:
        raise RestoreError(f"{file} cannot be read as a database ({error}): name another backup") from error
    if verdict != "ok":
        raise RestoreError(f"{file} is damaged ({verdict}): name another backup")
    return version


def _set_aside(database: Path, stamp: str) -> Path | None:
    """Keep the present database under another name; returns that name. Its place may still have it. The log
    is put out of the way even if its database was deleted: SQLite would apply it to the next one.
    """
    kept = database.with_name(f"{database.name}.before-restore-{stamp}")
    is_there = database.exists()
    if is_there:
        _end_log(database)
    companions = [name for name in COMPANIONS if database.with_name(database.name + name).exists()]
    for name in companions:  # only a database that cannot be opened, or that was deleted, still has them
        database.with_name(database.name + name).rename(kept.with_name(kept.name + name))
    if not is_there:
        return None
    try:
        os.link(database, kept)  # the place is never empty: the new file takes it in one step
    except OSError:  # a file system without links
        database.rename(kept)
    return kept


def _end_log(database: Path) -> None:
    """Move the log into the file, if the file can be read: else SQLite would delete the log."""
    if not database.stat().st_size:
        return
    try:
        with closing(read_only(database)) as reader:
            reader.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        return


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    return {str(row[0]) for row in rows if not str(row[0]).startswith("sqlite_")}


def _tables_of(version: int, migrations: Sequence[Migration]) -> set[str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in migrations:
            if migration.version <= version:
                connection.executescript(migration.sql)
        return _tables(connection)


class InspectionError(Exception):
    """The file cannot be read. The text names the reason."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A database; `damage` is None if it is whole, and `used_bytes` is what a limit would count."""

    size_bytes: int
    log_bytes: int
    used_bytes: int
    schema: int
    damage: str | None


def inspected(file: Path) -> Inspected:
    """Read and check a database. Raises InspectionError."""
    try:
        with closing(read_only(file)) as connection:
            size, log_bytes = file.stat().st_size, LogFile(file).size_bytes
            check = "integrity_check(1)" if size < _WHOLE_CHECK_BYTES else "quick_check(1)"
            page, pages, free, verdict = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count", "freelist_count", check)
            )
            damage = None if verdict == "ok" else " ".join(verdict.split())
            used = (pages - free) * page + log_bytes
            return Inspected(size, log_bytes, used, schema_version(connection), damage)
    except (sqlite3.Error, OSError) as error:
        raise InspectionError(str(error)) from error
