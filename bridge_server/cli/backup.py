"""`bridge-server backup`, `restore` and `copy`."""

import sqlite3
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from bridge_server.cli.database_command import DatabaseCommand, database_command, refuse_postgresql
from bridge_server.cli.options import FOLDER, CommandError, command_errors
from bridge_server.cli.output import progress_bar
from bridge_server.kernel.clock import SystemClock
from bridge_server.settings.settings import Settings
from bridge_server.storage.backup import BackupError, LastBackup, backup, backup_into, write_record
from bridge_server.storage.data_directory import DataDirectoryError, require_data
from bridge_server.storage.database import DatabaseRefusedError, checked_url, url_without_password
from bridge_server.storage.migrate import NewerSchemaError, packaged_migrations
from bridge_server.storage.restore import RestoreError, restore

_USUALLY_KEPT = 7


@database_command(click.command("backup"))
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--dir", "directory", type=FOLDER,
    help="Make a file in this directory, named by the time, instead of FILE.",
)  # fmt: skip
@click.option(
    "--keep", type=click.IntRange(1, 10_000), metavar="NUMBER",
    help=f"With --dir: remove all but the newest backups there.  [default: {_USUALLY_KEPT}]",
)  # fmt: skip
@click.option(
    "--with-keys", is_flag=True, help="With --dir: copy the wallet's key files, which are encrypted, too."
)
def backup_command(
    command: DatabaseCommand, file: Path | None, directory: Path | None, keep: int | None, with_keys: bool
) -> None:
    """Copy the database into a backup FILE.

    The server may run meanwhile. The copy is a consistent snapshot and is checked. Key files of the wallet
    are not in it.
    """
    if (file is None) == (directory is None):
        raise CommandError("name the file of the copy, or with --dir the directory of backups")
    if directory is None and (keep is not None or with_keys):
        raise CommandError("--keep and --with-keys are for a directory of backups: name it with --dir")
    refuse_postgresql(command, "bridge-server backup", "pg_dump --format=custom --file FILE URL")
    with command_errors(BackupError, DataDirectoryError):
        if directory is not None:
            _into_directory(command, directory, keep or _USUALLY_KEPT, with_keys)
        elif file is not None:
            size = backup(command.settings.database_file, file)
            _remember(command.settings, file, size)
            command.show({"file": str(file), "bytes": size}, [f"{file}: {size} bytes, checked"])


def time_stamp() -> str:
    """The present second in UTC, such as 20260102T030405Z: names sort by time."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def _into_directory(command: DatabaseCommand, directory: Path, keep: int, with_keys: bool) -> None:
    settings = command.settings
    keystore = settings.keystore if with_keys else None
    made = backup_into(directory, time_stamp(), settings.database_file, keep, keystore)
    _remember(settings, made.file, made.size_bytes)
    lines = [f"{made.file}: {made.size_bytes} bytes, checked"]
    if made.keys is not None:
        count = len(list(made.keys.iterdir()))
        files = f"{count} key file{'' if count == 1 else 's'} of the wallet"
        lines.append(f"{made.keys}: {files if count else 'the wallet has no key files'}")
    fields = {
        "file": str(made.file),
        "bytes": made.size_bytes,
        "keys": None if made.keys is None else str(made.keys),
        "removed": [str(file) for file in made.removed],
    }
    command.show(fields, [*lines, *(f"{file}: removed" for file in made.removed)])


def _remember(settings: Settings, file: Path, size_bytes: int) -> None:
    write_record(settings.data_dir, LastBackup(SystemClock().now_ms(), str(file.absolute()), size_bytes))


@database_command(click.command("restore"))
@click.argument("file", type=click.Path(path_type=Path))
def restore_command(command: DatabaseCommand, file: Path) -> None:
    """Put the backup FILE in the database's place.

    The server must be stopped. FILE is checked and copied. The database that it replaces is kept beside it,
    and FILE stays as it is.
    """
    refuse_postgresql(command, "bridge-server restore", "pg_restore --clean --dbname URL FILE")
    database, migrations = command.settings.database_file, packaged_migrations()
    with command_errors(RestoreError, DataDirectoryError):
        restored = restore(file, database, time_stamp(), migrations)
    fields = {
        "database": str(database),
        "schema": restored.schema,
        "bytes": restored.size_bytes,
        "kept": None if restored.kept is None else str(restored.kept),
    }
    lines = [
        f"{database}: restored, {restored.size_bytes} bytes, schema {restored.schema}",
        "there was no database before" if restored.kept is None
        else f"{restored.kept}: the database of before",
    ]  # fmt: skip
    if restored.schema < migrations[-1].version:
        lines.append("the server brings the schema up to date when it starts")
    command.show(fields, lines)


# `bridge-server copy`: everything that is in the database file, into a PostgreSQL database.


@database_command(click.command("copy"))
@click.option(
    "--to", "url", required=True, metavar="URL",
    help="The PostgreSQL database, as postgresql://user@host/name. It must be empty. PGPASSWORD or ~/.pgpass "
    "has its password: other users can see arguments.",
)  # fmt: skip
def copy_command(command: DatabaseCommand, url: str) -> None:
    """Copy the database file into PostgreSQL.

    The server must be stopped. Everything is copied or nothing, and the rows are counted on both sides. The
    file stays as it is; key files and the audit log stay in data_dir. Afterwards start the server with
    `database` set to the URL.
    """
    settings = command.settings
    if settings.database is not None:
        raise CommandError("`database` names a PostgreSQL database already: leave it out to copy the file")
    if not settings.database_file.exists():
        raise CommandError(
            f"there is no database in {settings.data_dir}: name the server's data directory with --data-dir"
        )
    with command_errors(ValueError, about="--to: "):
        checked_url(url)
    if find_spec("asyncpg") is None:
        raise CommandError(
            'PostgreSQL needs a driver that is not installed: pip install "bridge-server[postgres]"'
        )
    file, shown = settings.database_file, url_without_password(url)
    refused = (DataDirectoryError, DatabaseRefusedError, NewerSchemaError)
    unreadable = f"the database {file} cannot be read: "
    with command_errors(*refused), command_errors(sqlite3.Error, about=unreadable):
        require_data(file)
        copying = import_module("bridge_server.storage.postgres.copying")
        with progress_bar("copying", copying.rows_of(file), is_quiet=command.as_json) as bar:
            copied = copying.copied_to_postgres(file, url, lambda table, rows: bar.update(rows, table))
    filled = sum(1 for count in copied.values() if count)
    line = f"{sum(copied.values()):,} rows of {filled} tables copied to {shown}, and counted"
    command.show({"database": shown, "rows": dict(copied)}, [line])
