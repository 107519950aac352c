"""The command `bridge-server`. Without the name of a subcommand it runs `serve`."""

import sys
from traceback import walk_tb

import click

from bridge_server.cli.groups import LazyGroup
from bridge_server.cli.screen import discard_the_rest
from bridge_server.version import NAME, VERSION

_PLACES = {
    "account": "bridge_server.cli.account:account_group",
    "approvals": "bridge_server.cli.approvals:approvals_group",
    "backup": "bridge_server.cli.backup:backup_command",
    "clients": "bridge_server.cli.clients:clients_command",
    "config": "bridge_server.cli.config:config_group",
    "console": "bridge_server.cli.console:console_command",
    "copy": "bridge_server.cli.copy:copy_command",
    "dev": "bridge_server.cli.dev:dev_command",
    "device": "bridge_server.cli.device:device_group",
    "doctor": "bridge_server.cli.doctor.command:doctor_command",
    "health": "bridge_server.cli.health:health_command",
    "keys": "bridge_server.cli.keys:keys_group",
    "notify": "bridge_server.cli.notify.command:notify_command",
    "openapi": "bridge_server.cli.openapi:openapi_command",
    "openrpc": "bridge_server.cli.openrpc:openrpc_command",
    "outbox": "bridge_server.cli.outbox:outbox_group",
    "processes": "bridge_server.cli.processes:processes_command",
    "project": "bridge_server.cli.project:project_group",
    "push": "bridge_server.cli.push:push_group",
    "restore": "bridge_server.cli.restore:restore_command",
    "serve": "bridge_server.cli.serve:serve_command",
    "service": "bridge_server.cli.service:service_group",
    "stats": "bridge_server.cli.stats:stats_command",
    "subscriber": "bridge_server.cli.subscriber:subscriber_group",
    "tour": "bridge_server.cli.tour:tour_command",
    "version": "bridge_server.cli.version:version_command",
    "wallet": "bridge_server.cli.wallet:wallet_command",
    "webhook": "bridge_server.cli.webhook:webhook_group",
}
"""The module and attribute of each command. A module is imported when its command or its help is needed."""


@click.group(cls=LazyGroup, places=_PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name=NAME)
def commands() -> None:
    """A server for wallets and dapps: relay bridge, notifications, pushes and wallet JSON-RPC.

    Without a command it runs the server (serve).
    """


def main() -> None:
    """Run the command line. What standard output does not take, such as a full disk, ends it with 2."""
    try:
        commands(_with_default_command(sys.argv[1:]))
    except OSError as error:
        if not _is_of_the_output(error):
            raise
        discard_the_rest()
        click.echo(f"bridge-server: standard output cannot be written: {error.strerror}", err=True)
        sys.exit(2)


def _is_of_the_output(error: OSError) -> bool:
    """Whether the error was raised where commands print."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_code is click.echo.__code__


def _with_default_command(arguments: list[str]) -> list[str]:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        return ["serve", *arguments]
    return arguments
