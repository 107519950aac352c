"""Copies of a database that may be in use, complete as of one moment and compact; and backups in one
directory, of which the newest are kept, with a record of the last one.
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import orjson

from bridge_server.kernel.process import is_running
from bridge_server.kernel.values import dataclass
from bridge_server.storage.data_directory import require_data

_PARTIAL = re.compile(r"(?P<name>.+?)(?:\.(?P<process>[0-9]{1,9}))?\.partial", re.ASCII | re.DOTALL)
"""The name of an unfinished copy: its target and its process, which older versions left out."""

_BACKUP_NAME = re.compile(r"bridge-[0-9]{8}T[0-9]{6}Z\.sqlite3", re.ASCII)
_DATABASE_SUFFIX, _KEYS_SUFFIX = ".sqlite3", ".keys"
_RECORD_NAME = "last-backup.json"


class BackupError(Exception):
    """The copy could not be made. The text names the reason."""


def backup(database: Path, target: Path) -> int:
    """Copy the database file to `target`, which must not exist yet; returns its size in bytes. Raises
    BackupError, DataDirectoryError. Whatever happens, `target` is either absent or a whole, checked database.
    """
    if not database.is_file():
        raise BackupError(f"there is no database at {database}: name the data directory with --data-dir")
    require_data(database)
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
    """Write what the connection sees at this moment to a new file, check it, and make it durable. Each
    process writes a file of its own, and one of them gives it the target's name. Raises FileExistsError if
    the target is there by then.
    """
    remove_unfinished(target.parent, target.name.__eq__)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection.execute("VACUUM INTO ?", (str(partial),))
        _check(partial)
        sync(partial)
        try:
            os.link(partial, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            partial.rename(target)
        sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def remove_unfinished(directory: Path, is_target: Callable[[str], object]) -> None:
    """Remove the unfinished copies of these targets, by name, that killed processes have left."""
    for file in directory.iterdir():
        found = _PARTIAL.fullmatch(file.name)
        if found is None or not is_target(found["name"]) or not file.is_file():
            continue
        process = found["process"]  # this one begins now: a file of its number is of an earlier one
        if not (process is not None and int(process) != os.getpid() and is_running(int(process))):
            file.unlink(missing_ok=True)


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


@dataclass(frozen=True, slots=True)
class LastBackup:
    """The backup that was made last. The time is milliseconds since the Unix epoch."""

    at_ms: int
    file: str
    bytes: int


class SeriesBackup(NamedTuple):
    """A backup in a directory: its file, the copy of the wallet's key files, and the backups removed."""

    file: Path
    size_bytes: int
    keys: Path | None
    removed: list[Path]


def backup_into(
    directory: Path, stamp: str, database: Path, keep: int, key_files: Path | None = None
) -> SeriesBackup:
    """Copy the database into the directory and remove all but the newest `keep` backups there. With
    `key_files` the key files in that directory are copied too; they are encrypted. `stamp` is the time as a
    part of the name, such as 20260102T030405Z. Raises BackupError; then no backup is removed.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackupError(f"{directory} cannot be made ({error.strerror}): name another directory") from error
    remove_unfinished(directory, _BACKUP_NAME.fullmatch)
    target = directory / f"bridge-{stamp}{_DATABASE_SUFFIX}"
    size = backup(database, target)
    keys = None if key_files is None else _copied_keys(key_files, target)
    return SeriesBackup(target, size, keys, _removed(directory, keep))


def write_record(data_dir: Path, last: LastBackup) -> None:
    """Keep the time of the last backup beside the database, where `doctor` looks. A failure is no failure."""
    with suppress(OSError):
        partial = data_dir / f"{_RECORD_NAME}.partial"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(orjson.dumps(asdict(last)))
        partial.replace(data_dir / _RECORD_NAME)


def read_record(data_dir: Path) -> LastBackup | None:
    """The last backup of this data directory; None if there was none."""
    try:
        fields = orjson.loads((data_dir / _RECORD_NAME).read_bytes())
        return LastBackup(int(fields["at_ms"]), str(fields["file"]), int(fields["bytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _copied_keys(key_files: Path, target: Path) -> Path:
    """Copy the key files beside the backup. A backup without its keys does not stay."""
    keys = target.with_suffix(_KEYS_SUFFIX)
    partial = keys.with_name(f"{keys.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        for file in sorted(key_files.iterdir()) if key_files.is_dir() else ():
            if file.is_file():
                shutil.copyfile(file, partial / file.name)
                (partial / file.name).chmod(0o600)
        partial.rename(keys)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        target.unlink(missing_ok=True)
        raise BackupError(f"the key files in {key_files} could not be copied: {error}") from error
    return keys


def _removed(directory: Path, keep: int) -> list[Path]:
    """Remove the oldest backups, whose names sort by time, and their keys. Other files stay."""
    made = sorted(file for file in directory.iterdir() if _BACKUP_NAME.fullmatch(file.name))
    outdated = made[:-keep]
    for file in outdated:
        with suppress(OSError):  # the next backup tries again
            file.unlink(missing_ok=True)
            shutil.rmtree(file.with_suffix(_KEYS_SUFFIX), ignore_errors=True)
    return [file for file in outdated if not file.exists()]
