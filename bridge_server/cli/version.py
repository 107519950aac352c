"""`bridge-server version`."""

import click
import orjson

from bridge_server.cli.json_option import json_option
from bridge_server.version import NAME, VERSION


@click.command("version")
@json_option
def version_command(as_json: bool) -> None:
    """Print the version."""
    click.echo(orjson.dumps({"name": NAME, "version": VERSION}) if as_json else f"{NAME} {VERSION}")
