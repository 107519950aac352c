"""`bridge-server backup`."""

from pathlib import Path
from typing import Any

import click

from bridge_server.cli.operator import Operator, for_operator, refuse_postgresql
from bridge_server.cli.options import CommandError
from bridge_server.cli.time_stamp import time_stamp
from bridge_server.kernel.clock import SystemClock
from bridge_server.settings.settings import Settings
from bridge_server.storage.backup import BackupError, backup
from bridge_server.storage.backup_series import LastBackup, SeriesBackup, backup_into, write_record

_USUALLY_KEPT = 7


@click.command("backup")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False, path_type=Path),
    help="Make a file in this directory, named by the time, instead of FILE.",
)  # fmt: skip
@click.option(
    "--keep", type=click.IntRange(1, 10_000), metavar="NUMBER",
    help=f"With --dir: remove all but the newest backups there.  [default: {_USUALLY_KEPT}]",
)  # fmt: skip
@click.option(
    "--with-keys", is_flag=True, help="With --dir: copy the wallet's key files, which are encrypted, too."
)
@for_operator
def backup_command(
    operator: Operator, file: Path | None, directory: Path | None, keep: int | None, with_keys: bool
) -> None:
    """Copy the database to FILE while the server runs.

    The copy is a consistent snapshot and is checked. Key files of the wallet are not in it.
    """
    if (file is None) == (directory is None):
        raise CommandError("name the file of the copy, or with --dir the directory of backups")
    if directory is None and (keep is not None or with_keys):
        raise CommandError("--keep and --with-keys are for a directory of backups: name it with --dir")
    refuse_postgresql(operator, "bridge-server backup", "pg_dump --format=custom --file FILE URL")
    try:
        if directory is not None:
            _into_directory(operator, directory, keep or _USUALLY_KEPT, with_keys)
        elif file is not None:
            _to_file(operator, file)
    except BackupError as error:
        raise CommandError(str(error)) from error


def _to_file(operator: Operator, file: Path) -> None:
    size = backup(operator.settings.database_file, file)
    _remember(operator.settings, file, size)
    operator.show({"file": str(file), "bytes": size}, [f"{file}: {size} bytes, checked"])


def _into_directory(operator: Operator, directory: Path, keep: int, with_keys: bool) -> None:
    settings = operator.settings
    keystore = settings.keystore if with_keys else None
    made = backup_into(directory, time_stamp(), settings.database_file, keep, keystore)
    _remember(settings, made.file, made.size_bytes)
    operator.show(_fields(made), _lines(made))


def _remember(settings: Settings, file: Path, size_bytes: int) -> None:
    write_record(settings.data_dir, LastBackup(SystemClock().now_ms(), str(file.absolute()), size_bytes))


def _fields(made: SeriesBackup) -> dict[str, Any]:
    return {
        "file": str(made.file),
        "bytes": made.size_bytes,
        "keys": None if made.keys is None else str(made.keys),
        "removed": [str(file) for file in made.removed],
    }


def _lines(made: SeriesBackup) -> list[str]:
    keys = [] if made.keys is None else [f"{made.keys}: {_key_files(made.keys)}"]
    removed = [f"{file}: removed" for file in made.removed]
    return [f"{made.file}: {made.size_bytes} bytes, checked", *keys, *removed]


def _key_files(folder: Path) -> str:
    count = len(list(folder.iterdir()))
    if not count:
        return "the wallet has no key files"
    return f"{count} key file{'' if count == 1 else 's'} of the wallet"
