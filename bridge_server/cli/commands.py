"""The commands of `bridge-server` by name, and those that need neither a server nor settings.

Each command loads what it needs when it is used.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from traceback import walk_tb
from typing import Any, NoReturn, TypeAlias

import click
import orjson

from bridge_server.cli.output import Group, discard_the_rest, json_option, print_result
from bridge_server.kernel.process import garbage_left_alone
from bridge_server.kernel.version import NAME, VERSION

_Sections: TypeAlias = Mapping[str, Sequence[tuple[str, Sequence[str]]]]
"""Under each heading of the help modules, each with the names of its commands."""


class LazyGroup(Group):
    """A group whose commands are imported when they are needed. They stand under headings of the help. The
    command `x` is `x_command` in its module, a group of commands `x_group`.
    """

    def __init__(self, *arguments: Any, sections: _Sections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sections = sections
        places = [place for section in sections.values() for place in section]
        self._modules = {name: module for module, names in places for name in names}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands in alphabetical order."""
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name; None if there is none."""
        if cmd_name not in self._modules:
            return None
        with garbage_left_alone():
            module = import_module(self._modules[cmd_name])
        is_group = hasattr(module, f"{cmd_name}_group")
        command: click.Command = getattr(module, f"{cmd_name}_{'group' if is_group else 'command'}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings, each in a line."""
        widest = max(map(len, self._modules))
        for heading, places in self._sections.items():
            with formatter.section(heading):
                self.write_commands(ctx, formatter, [name for _, names in places for name in names], widest)


_SECTIONS: _Sections = {
    "Run": [
        ("bridge_server.cli.dev", ("dev", "demo")),
        ("bridge_server.cli.serve", ("serve",)),
        ("bridge_server.cli.service", ("service",)),
        ("bridge_server.cli.stats", ("console",)),
    ],
    "Notify": [
        ("bridge_server.cli.project", ("project", "subscriber")),
        ("bridge_server.cli.notify", ("notify",)),
        ("bridge_server.cli.outbox", ("device", "push")),
    ],
    "Wallet": [
        ("bridge_server.cli.account", ("account", "approvals")),
        ("bridge_server.cli.wallet", ("wallet",)),
    ],
    "Operate": [
        ("bridge_server.cli.config", ("config",)),
        ("bridge_server.cli.doctor.command", ("doctor",)),
        ("bridge_server.cli.running_server", ("health",)),
        ("bridge_server.cli.stats", ("stats", "clients")),
        ("bridge_server.cli.outbox", ("outbox", "webhook")),
        ("bridge_server.cli.backup", ("backup", "restore", "copy")),
        ("bridge_server.cli.stats", ("processes",)),
    ],
    "Tools": [("bridge_server.cli.commands", ("keys", "openapi", "openrpc", "version"))],
}


@click.group(cls=LazyGroup, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name=NAME)
def commands() -> None:
    """A WalletConnect relay with notifications, pushes and a wallet over JSON-RPC."""


def run_without_command() -> NoReturn:
    """Print the help. Without a terminal it is a mistake, which the exit code 2 tells a service manager."""
    is_terminal = sys.stdout.isatty()
    with click.Context(commands, info_name="bridge-server", **commands.context_settings) as context:
        click.echo(context.get_help(), err=not is_terminal)
    if not is_terminal:
        click.echo("\nbridge-server: name a command; `bridge-server serve` starts a server", err=True)
    sys.exit(0 if is_terminal else 2)


def run(arguments: Sequence[str]) -> None:
    """Run a command. What standard output does not take, such as a full disk, ends it with 2."""
    try:
        commands(arguments)
    except OSError as error:
        *_, (frame, _) = walk_tb(error.__traceback__)
        if frame.f_code is not click.echo.__code__:  # it was not raised where commands print
            raise
        discard_the_rest()
        click.echo(f"bridge-server: standard output cannot be written: {error.strerror}", err=True)
        sys.exit(2)


# Commands that need neither a server nor settings: `version`, `openapi`, `openrpc` and `keys vapid`.


@click.command("version")
@json_option
def version_command(as_json: bool) -> None:
    """Print the version."""
    print_result({"name": NAME, "version": VERSION}, [f"{NAME} {VERSION}"], as_json=as_json)


@click.command("openapi")
def openapi_command() -> None:
    """Print every route as an OpenAPI document.

    The document has the routes that a server can have. It needs no server and no settings. A running server
    answers GET /openapi.json with the routes that its settings turn on.
    """
    document = import_module("bridge_server.assembly.application").whole_description()
    click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))


@click.command("openrpc")
def openrpc_command() -> None:
    """Print the wallet's methods as OpenRPC.

    A server answers it, too: at GET /openrpc.json, and to the method rpc.discover.
    """
    click.echo(import_module("bridge_server.wallet.rpc.routes").openrpc_json())


keys_group = Group("keys", help="Generate keys for push services.")


@keys_group.command("vapid")
@json_option
def vapid_command(as_json: bool) -> None:
    """Generate a VAPID key pair for Web Push, and print it as settings.

    The pair is not stored. Browsers subscribe with the public key, so keep one pair.
    """
    keys = import_module("bridge_server.push.keys").new_vapid_keys(os.urandom)
    lines = [
        "# This server's settings:",
        f"BRIDGE_VAPID_PRIVATE_KEY={keys.private_key}",
        "BRIDGE_VAPID_SUBJECT=mailto:you@example.org",
        "# The applicationServerKey with which web pages subscribe:",
        keys.public_key,
    ]
    print_result({"public_key": keys.public_key, "private_key": keys.private_key}, lines, as_json=as_json)
