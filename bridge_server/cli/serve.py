"""`bridge-server serve`: start the server, announce its URL, run until a signal, shut down cleanly."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from bridge_server.cli.banner import banner
from bridge_server.cli.logs import configure_logs
from bridge_server.cli.options import (
    config_option,
    data_dir_option,
    loaded_settings,
    ready_file_option,
    reread_settings,
    set_option,
    stop_with_parent_option,
)
from bridge_server.cli.parent import Parent
from bridge_server.cli.serving import ServerRun, Started, run_server
from bridge_server.cli.start_warnings import warn_of_mistakes, warn_of_open_doors


@click.command("serve")
@click.option("--host", help="The address to listen on; 0.0.0.0 or :: for all.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port to listen on; 0 picks a free one.  [default: 8080]")
@data_dir_option
@config_option
@click.option("--public-url", help="The URL at which other machines reach this server.")
@click.option(
    "--allow-private-webhooks", is_flag=True, default=None,
    help="Allow webhooks at private and loopback addresses. For development.",
)  # fmt: skip
@click.option("--node-url", help="The JSON-RPC URL of the wallet's Ethereum node.")
@click.option(
    "--dev-accounts", is_flag=True, default=None,
    help="Give the wallet accounts with published private keys. For development.",
)  # fmt: skip
@click.option("--chain-id", help="The chain id of the wallet.  [default: the node's]")
@click.option(
    "--rpc-origins", metavar="ORIGINS",
    help="Origins of web pages that may call the wallet, such as http://localhost:3000,https://a.example.",
)  # fmt: skip
@click.option(
    "--test", is_flag=True, default=None,
    help="Let tests control the server by the routes at /_test. On this machine only.",
)  # fmt: skip
@click.option(
    "--processes", type=int, help="How many processes serve; several need PostgreSQL.  [default: 1]"
)
@set_option
@click.option(
    "--access-log", is_flag=True, default=None, help="Log every request, not only errors and slow ones."
)
@ready_file_option
@stop_with_parent_option
def serve_command(
    config_file: Path | None,
    ready_file: Path | None,
    stop_with_parent: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run the server."""
    parent = Parent() if stop_with_parent else None
    loaded = loaded_settings(config_file, assignments, **flags)
    configure_logs(loaded.settings.log_level, loaded.settings.log_format)
    warn_of_open_doors(loaded.settings)
    warn_of_mistakes(loaded)
    run = ServerRun(
        settings=loaded.settings,
        origins=loaded.origins,
        reload=partial(reread_settings, config_file, assignments, **flags),
        companion=_banner_on_terminal,
        ready_file=ready_file,
        parent=parent,
    )
    if loaded.settings.processes > 1:
        import_module("bridge_server.cli.several").run_several(run)
        return
    run_server(run)


@asynccontextmanager
async def _banner_on_terminal(server: Started) -> AsyncIterator[Mapping[str, Any]]:
    if sys.stdout.isatty():
        click.echo(banner(server.url, server.settings))
    yield {}
