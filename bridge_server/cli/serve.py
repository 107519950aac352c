"""`bridge-server serve`: the command, and its warnings of settings that are probably mistakes."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import structlog

from bridge_server.cli import options, process
from bridge_server.cli.options import loaded_settings, reread_settings
from bridge_server.cli.server_run import ServerRun, Started, banner, run_server
from bridge_server.settings.sources import LoadedSettings

log = structlog.get_logger()


@click.command("serve")
@click.option("--host", help="The address to listen on; 0.0.0.0 or :: for all.  [default: 127.0.0.1]")
@options.port_option
@options.data_dir_option
@options.config_option
@click.option("--public-url", help="The URL at which other machines reach this server.")
@click.option(
    "--allow-private-webhooks", is_flag=True, default=None,
    help="Allow webhooks at private and loopback addresses. For development.",
)  # fmt: skip
@options.node_url_option
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
@options.set_option
@click.option(
    "--access-log", is_flag=True, default=None, help="Log every request, not only errors and slow ones."
)
@options.ready_file_option
@options.stop_with_parent_option
def serve_command(
    config_file: Path | None, ready_file: Path | None, assignments: tuple[str, ...], **flags: Any
) -> None:
    """Run the server."""
    loaded = loaded_settings(config_file, assignments, **flags)
    process.configure_logs(loaded.settings.log_level, loaded.settings.log_format)
    if loaded.settings.dev_accounts:
        advice = "everybody knows their keys: never send them anything of value"
        log.warning("development_accounts", advice=advice)
    if loaded.settings.test:
        log.warning("test_mode", advice="tests can empty this server: never keep anything of value in it")
    warn_of_mistakes(loaded)
    run = ServerRun(
        settings=loaded.settings,
        origins=loaded.origins,
        reload=partial(reread_settings, config_file, assignments, **flags),
        companion=_banner_on_terminal,
        ready_file=ready_file,
    )
    if loaded.settings.processes > 1:
        import_module("bridge_server.cli.serve_processes").run_several(run)
        return
    run_server(run)


@asynccontextmanager
async def _banner_on_terminal(server: Started) -> AsyncIterator[Mapping[str, Any]]:
    if sys.stdout.isatty():
        click.echo(banner(server.url, server.settings))
    yield {}


def warn_of_mistakes(loaded: LoadedSettings) -> None:
    """Warn of settings that are probably mistakes."""
    for variable in loaded.unknown_variables:
        log.warning("unknown_setting", variable=variable)
    settings, way = loaded.settings, loaded.settings.way_through_a_proxy
    if way is not None and settings.rpc_token is None and settings.has_wallet:
        log.warning(
            "wallet_without_token", because=way,
            advice="clients come through a proxy; if it adds no X-Forwarded-For, the wallet answers all of "
            "them: set rpc_token",
        )  # fmt: skip
    descriptors = process.raise_descriptor_limit()
    if descriptors < process.ENOUGH_DESCRIPTORS:
        log.warning(
            "few_file_descriptors", limit=descriptors, wanted=process.ENOUGH_DESCRIPTORS,
            advice="each waiting client needs one: raise the hard limit (ulimit -Hn, LimitNOFILE=)",
        )  # fmt: skip
