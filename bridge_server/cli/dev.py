"""`bridge-server dev`: a server for development, which everybody on this machine may control."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from bridge_server.assembly.demo import DemoProject
from bridge_server.cli.config_out import remove_config_file
from bridge_server.cli.dev_data import DevData
from bridge_server.cli.dev_run import DEMO_NAME, DEMO_TYPES, PROJECT_ID, DevOptions, beside_dev
from bridge_server.cli.dev_settings import dev_settings, refuse_own_keys
from bridge_server.cli.logs import configure_logs
from bridge_server.cli.options import (
    CommandError,
    config_option,
    loaded_settings,
    ready_file_option,
    reread_settings,
    set_option,
    stop_with_parent_option,
)
from bridge_server.cli.parent import Parent
from bridge_server.cli.reachable_url import lan_address
from bridge_server.cli.serving import ServerRun, run_server
from bridge_server.cli.start_warnings import warn_of_mistakes
from bridge_server.settings.sources import LoadedSettings


@click.command("dev")
@click.option("--port", type=int, help="The port to listen on; 0 picks a free one.  [default: 8080]")
@click.option("--lan", is_flag=True, help="Let phones in the local network reach the bridge, and only that.")
@click.option("--open", "opens", is_flag=True, help="Open the console in the browser.")
@click.option("--node-url", help="The JSON-RPC URL of the wallet's Ethereum node.")
@click.option(
    "--policy", type=click.Choice(["approve", "queue"]), default="approve", show_default=True,
    help="approve: the wallet signs by itself; queue: it waits for `bridge-server approvals`.",
)  # fmt: skip
@click.option(
    "--rpc-origins", metavar="ORIGINS",
    help="Origins of further web pages that may call the wallet; those of this machine may anyway.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Keep the data in this directory. Without it nothing is kept.",
)  # fmt: skip
@click.option(
    "--config-out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="While the server runs, keep its addresses, tokens and keys in this file: JSON, or shell for *.env.",
)  # fmt: skip
@config_option
@set_option
@ready_file_option
@stop_with_parent_option
def dev_command(
    lan: bool,
    opens: bool,
    policy: str,
    keep: Path | None,
    config_out: Path | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    ready_file: Path | None,
    stop_with_parent: bool,
    **flags: Any,
) -> None:
    """Run a server for development: nothing is kept, everybody knows the keys.

    It listens on this machine alone, signs with published accounts, has a project to send notifications with,
    and prints a line for each request.
    """
    parent = Parent() if stop_with_parent else None
    with DevData(keep) as data:
        command = dev_settings(data.path, policy)
        loaded = _checked(loaded_settings(config_file, assignments, command, **flags))
        options = DevOptions(
            data=data,
            admin_token=str(command.fixed["admin_token"]),
            address_for_phones=_address_for_phones() if lan else None,
            config_out=config_out,
            opens=opens,
            approves=policy == "approve",
        )
        run_server(
            ServerRun(
                settings=loaded.settings,
                origins=loaded.origins,
                reload=partial(reread_settings, config_file, assignments, command, **flags),
                companion=partial(beside_dev, options),
                ready_file=ready_file,
                parent=parent,
                demo=DemoProject(PROJECT_ID, DEMO_NAME, data.project_secret, DEMO_TYPES),
                logs_start=False,
                address_options="--port",
                abandon=partial(_abandon, data, ready_file, config_out),
            )
        )


def _checked(loaded: LoadedSettings) -> LoadedSettings:
    """The settings, after their log is set up and warned of their mistakes. Raises CommandError."""
    refuse_own_keys(loaded)
    configure_logs(loaded.settings.log_level, loaded.settings.log_format)
    warn_of_mistakes(loaded)
    return loaded


def _address_for_phones() -> str:
    address = lan_address()
    if address is None:
        raise CommandError(
            "--lan: this machine is in no network in which a phone could reach it: connect it to one, or "
            "leave out --lan"
        )
    return address


def _abandon(data: DevData, ready_file: Path | None, config_out: Path | None) -> None:
    """Remove a data directory that is not kept."""
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    if config_out is not None:
        remove_config_file(config_out)
    data.remove()
