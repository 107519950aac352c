"""Backups in one directory, of which the newest are kept, and the record of the last backup."""

import os
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from bridge_server.storage.backup import BackupError, backup, remove_unfinished

_NAME = re.compile(r"bridge-[0-9]{8}T[0-9]{6}Z\.sqlite3", re.ASCII)
_DATABASE, _KEYS = ".sqlite3", ".keys"
_RECORD = "last-backup.json"


@dataclass(frozen=True, slots=True)
class LastBackup:
    """The backup that was made last. The time is milliseconds since the Unix epoch."""

    at_ms: int
    file: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SeriesBackup:
    """A backup in a directory: its file, the copy of the wallet's key files, and the backups removed."""

    file: Path
    size_bytes: int
    keys: Path | None
    removed: list[Path]


def backup_into(
    directory: Path, stamp: str, database: Path, keep: int, key_files: Path | None = None
) -> SeriesBackup:
    """Copy the database into the directory and remove all but the newest `keep` backups there.

    With `key_files` the key files in that directory are copied too; they are encrypted. `stamp` is the time
    as a part of the name, such as 20260102T030405Z. Raises BackupError; then no backup is removed.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackupError(f"{directory} cannot be made ({error.strerror}): name another directory") from error
    remove_unfinished(directory, _NAME.fullmatch)
    target = directory / f"bridge-{stamp}{_DATABASE}"
    size = backup(database, target)
    keys = None if key_files is None else _copied_keys(key_files, target)
    return SeriesBackup(target, size, keys, _removed(directory, keep))


def write_record(data_dir: Path, last: LastBackup) -> None:
    """Keep the time of the last backup beside the database, where `doctor` looks. A failure is no failure."""
    with suppress(OSError):
        partial = data_dir / f"{_RECORD}.partial"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(orjson.dumps(asdict(last)))
        partial.replace(data_dir / _RECORD)


def read_record(data_dir: Path) -> LastBackup | None:
    """The last backup of this data directory; None if there was none."""
    try:
        fields = orjson.loads((data_dir / _RECORD).read_bytes())
        return LastBackup(int(fields["at_ms"]), str(fields["file"]), int(fields["bytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _copied_keys(key_files: Path, target: Path) -> Path:
    """Copy the key files beside the backup. A backup without its keys does not stay."""
    keys = target.with_suffix(_KEYS)
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
    made = sorted(file for file in directory.iterdir() if _NAME.fullmatch(file.name))
    outdated = made[:-keep]
    for file in outdated:
        with suppress(OSError):  # the next backup tries again
            file.unlink(missing_ok=True)
            shutil.rmtree(file.with_suffix(_KEYS), ignore_errors=True)
    return [file for file in outdated if not file.exists()]
