"""`bridge-server health`: for the health check of a container, and for scripts."""

from pathlib import Path

import click
import orjson

from bridge_server.cli.json_option import json_option
from bridge_server.cli.options import config_option, data_dir_option, loaded_settings
from bridge_server.cli.running_server import fault_of_server, running_url

_UNHEALTHY = 1


@click.command("health")
@config_option
@data_dir_option
@json_option
@click.pass_context
def health_command(
    context: click.Context, config_file: Path | None, data_dir: Path | None, as_json: bool
) -> None:
    """Ask the server that runs on the data directory whether it is ready; the exit code is 1 if it is not."""
    settings = loaded_settings(config_file, data_dir=data_dir).settings
    url = running_url(settings)
    fault = f"no server runs on {settings.data_dir}" if url is None else fault_of_server(url)
    if as_json:
        click.echo(orjson.dumps({"ready": fault is None, "url": url, "fault": fault}))
    else:
        click.echo(fault or f"ready: {url}")
    context.exit(_UNHEALTHY if fault else 0)
