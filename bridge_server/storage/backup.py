"""A copy of a database that may be in use: complete as of one moment, and compact."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path


class BackupError(Exception):
    """The copy could not be made. The text names the reason."""


def backup(database: Path, target: Path) -> int:
    """Copy the database file to `target`, which must not exist yet; returns its size in bytes.

    Raises BackupError. Whatever happens, `target` is either absent or a whole, checked database.
    """
    if not database.is_file():
        raise BackupError(f"there is no database at {database}: name the data directory with --data-dir")
    if target.exists():
        raise BackupError(f"{target} exists already: name a new file")
    try:
        with closing(read_only(database)) as connection:
            copy_database(connection, target)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"the copy to {target} failed: {error}") from error
    return target.stat().st_size


def read_only(file: Path) -> sqlite3.Connection:
    """A connection that cannot change the file. Raises sqlite3.Error."""
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def copy_database(connection: sqlite3.Connection, target: Path) -> None:
    """Write what the connection sees at this moment to a new file, check it, and make it durable."""
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection.execute("VACUUM INTO ?", (str(partial),))
        _check(partial)
        sync(partial)
        partial.rename(target)
        sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _check(file: Path) -> None:
    connection = sqlite3.connect(file)
    try:
        verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
    finally:
        connection.close()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"the copy is damaged: {verdict}")


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
