"""`bridge-server`: its commands, with `serve` as the one that is meant when none is named."""

import sys

import click

from bridge_server.cli.account import account_group
from bridge_server.cli.approvals import approvals_group
from bridge_server.cli.backup import backup_command
from bridge_server.cli.config import config_group
from bridge_server.cli.device import device_group
from bridge_server.cli.keys import keys_group
from bridge_server.cli.project import project_group
from bridge_server.cli.push import push_group
from bridge_server.cli.serve import serve_command
from bridge_server.cli.subscriber import subscriber_group
from bridge_server.cli.version import version_command
from bridge_server.version import NAME, VERSION


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name=NAME)
def commands() -> None:
    """The server that wallets and dapps talk through. Without a command: serve."""


commands.add_command(serve_command)
commands.add_command(project_group)
commands.add_command(subscriber_group)
commands.add_command(approvals_group)
commands.add_command(config_group)
commands.add_command(backup_command)
commands.add_command(device_group)
commands.add_command(push_group)
commands.add_command(keys_group)
commands.add_command(account_group)
commands.add_command(version_command)


def main() -> None:
    """Run the command line."""
    commands(_with_default_command(sys.argv[1:]))


def _with_default_command(arguments: list[str]) -> list[str]:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        return ["serve", *arguments]
    return arguments
