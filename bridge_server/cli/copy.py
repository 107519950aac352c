"""`bridge-server copy`: everything that is in the database file, into a PostgreSQL database."""

import sqlite3
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec

import click

from bridge_server.cli.operator import Operator, for_operator
from bridge_server.cli.options import CommandError
from bridge_server.cli.progress import progress_bar
from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.database_url import checked_url, url_without_password
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.storage.refusal import DatabaseRefusedError

_COPYING = "bridge_server.assembly.postgres_copy"


@click.command("copy")
@click.option(
    "--to", "url", required=True, metavar="URL",
    help="The PostgreSQL database, as postgresql://user@host/name. It must be empty. PGPASSWORD or ~/.pgpass "
    "has its password: other users can see arguments.",
)  # fmt: skip
@for_operator
def copy_command(operator: Operator, url: str) -> None:
    """Copy the database file into a PostgreSQL database, while the server is stopped.

    Everything is copied or nothing, and the rows are counted on both sides. The file stays as it is; key
    files and the audit log stay in data_dir. Afterwards start the server with `database` set to the URL.
    """
    _require_possible(operator, url)
    try:
        copying = import_module(_COPYING)
        with progress_bar("copying", copying.rows_in(operator.settings), is_quiet=operator.as_json) as bar:
            copied = copying.copied_to_postgres(
                operator.settings, url, lambda table, rows: bar.update(rows, table)
            )
    except (DataDirectoryError, DatabaseRefusedError, NewerSchemaError) as error:
        raise CommandError(str(error)) from error
    except sqlite3.Error as error:
        raise CommandError(
            f"the database {operator.settings.database_file} cannot be read: {error}"
        ) from error
    operator.show({"database": url_without_password(url), "rows": dict(copied)}, [_line(url, copied)])


def _require_possible(operator: Operator, url: str) -> None:
    settings = operator.settings
    if settings.database is not None:
        raise CommandError("`database` names a PostgreSQL database already: leave it out to copy the file")
    if not settings.database_file.exists():
        raise CommandError(
            f"there is no database in {settings.data_dir}: name the server's data directory with --data-dir"
        )
    try:
        checked_url(url)
    except ValueError as error:
        raise CommandError(f"--to: {error}") from error
    if find_spec("asyncpg") is None:
        raise CommandError(
            'PostgreSQL needs a driver that is not installed: pip install "bridge-server[postgres]"'
        )


def _line(url: str, copied: Mapping[str, int]) -> str:
    filled = sum(1 for count in copied.values() if count)
    return (
        f"{sum(copied.values()):,} rows of {filled} tables copied to {url_without_password(url)}, and counted"
    )
