"""A copy of a database that may be in use: complete as of one moment, and compact."""

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bridge_server.kernel.process_ids import is_running

_PARTIAL = re.compile(r"(?P<name>.+?)(?:\.(?P<process>[0-9]{1,9}))?\.partial", re.ASCII | re.DOTALL)
"""The name of an unfinished copy: its target and its process, which older versions left out."""


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
    except FileExistsError as error:
        raise BackupError(f"{target} exists already: name a new file") from error
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"the copy to {target} failed: {error}") from error
    return target.stat().st_size


def read_only(file: Path) -> sqlite3.Connection:
    """A connection that cannot change the file. Raises sqlite3.Error."""
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def copy_database(connection: sqlite3.Connection, target: Path) -> None:
    """Write what the connection sees at this moment to a new file, check it, and make it durable.

    Each process writes a file of its own, and one of them gives it the target's name. Raises FileExistsError
    if the target is there by then.
    """
    remove_unfinished(target.parent, target.name.__eq__)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection.execute("VACUUM INTO ?", (str(partial),))
        _check(partial)
        sync(partial)
        _name(partial, target)
        sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def remove_unfinished(directory: Path, is_target: Callable[[str], object]) -> None:
    """Remove the unfinished copies of these targets, by name, that killed processes have left."""
    for file in directory.iterdir():
        found = _PARTIAL.fullmatch(file.name)
        if found is None or not is_target(found["name"]) or not file.is_file():
            continue
        if not _is_being_written(found["process"]):
            file.unlink(missing_ok=True)


def _is_being_written(process: str | None) -> bool:
    """Whether the process runs. This process begins now: a file of its number is of an earlier one."""
    return process is not None and int(process) != os.getpid() and is_running(int(process))


def _name(partial: Path, target: Path) -> None:
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        partial.rename(target)


def _check(file: Path) -> None:
    uri = f"{file.resolve().as_uri()}?mode=rw"  # which makes no file where none is
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"the copy is damaged: {verdict}")


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
