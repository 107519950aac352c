"""`bridge-server restore FILE`."""

from pathlib import Path

import click

from bridge_server.cli.operator import Operator, for_operator, refuse_postgresql
from bridge_server.cli.options import CommandError
from bridge_server.cli.time_stamp import time_stamp
from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.migrate import packaged_migrations
from bridge_server.storage.restore import RestoreError, restore


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@for_operator
def restore_command(operator: Operator, file: Path) -> None:
    """Put the backup FILE into the place of the database. The server must be stopped.

    FILE is checked and copied. The database that it replaces is kept beside it, and FILE stays as it is.
    """
    refuse_postgresql(operator, "bridge-server restore", "pg_restore --clean --dbname URL FILE")
    database, migrations = operator.settings.database_file, packaged_migrations()
    try:
        restored = restore(file, database, time_stamp(), migrations)
    except (RestoreError, DataDirectoryError) as error:
        raise CommandError(str(error)) from error
    fields = {
        "database": str(database),
        "schema": restored.schema,
        "bytes": restored.size_bytes,
        "kept": None if restored.kept is None else str(restored.kept),
    }
    operator.show(fields, _lines(fields, restored.schema < migrations[-1].version))


def _lines(fields: dict[str, object], is_older: bool) -> list[str]:
    kept = fields["kept"]
    return [
        f"{fields['database']}: restored, {fields['bytes']} bytes, schema {fields['schema']}",
        "there was no database before" if kept is None else f"{kept}: the database of before",
        *(["the server brings the schema up to date when it starts"] if is_older else []),
    ]
