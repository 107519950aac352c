"""`bridge-server backup FILE`."""

from pathlib import Path

import click
import orjson

from bridge_server.cli.json_option import json_option
from bridge_server.cli.options import (
    CommandError,
    config_option,
    data_dir_option,
    loaded_settings,
)
from bridge_server.storage.backup import BackupError, backup


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@config_option
@data_dir_option
@json_option
def backup_command(file: Path, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Copy the database to FILE while the server runs.

    The copy is a consistent snapshot and is checked. Key files of the wallet are not in it.
    """
    database = loaded_settings(config_file, data_dir=data_dir).settings.database_file
    try:
        size = backup(database, file)
    except BackupError as error:
        raise CommandError(str(error)) from error
    if as_json:
        click.echo(orjson.dumps({"file": str(file), "bytes": size}))
    else:
        click.echo(f"{file}: {size} bytes, checked")
