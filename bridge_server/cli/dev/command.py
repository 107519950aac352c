"""`bridge-server dev`: a server for development, which everybody on this machine may control."""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import click

from bridge_server.assembly.room import DemoProject
from bridge_server.cli.console import open_console, sign_in_link
from bridge_server.cli.dev.screen import TrafficLines, dev_banner
from bridge_server.cli.dev_files import COMMAND, DevData, config_file_at, remove_config_file
from bridge_server.cli.options import (
    CommandError,
    config_option,
    loaded_settings,
    node_url_option,
    port_option,
    ready_file_option,
    reread_settings,
    set_option,
    stop_with_parent_option,
)
from bridge_server.cli.output import Output, screen_of
from bridge_server.cli.process import configure_logs, lan_address, typed_command
from bridge_server.cli.running_server import CONSOLE_URL
from bridge_server.cli.serve import warn_of_mistakes
from bridge_server.cli.server_run import (
    ServerRun,
    Started,
    accounts_for_development,
    lan_listening,
    run_server,
)
from bridge_server.kernel.background import running
from bridge_server.kernel.secrets import new_secret
from bridge_server.kernel.values import dataclass
from bridge_server.relay.wire import V07
from bridge_server.settings.sources import CommandSettings, LoadedSettings
from bridge_server.settings.types import secret_of

# The settings of `bridge-server dev`.


_DEFAULTS = {"console": "on", "admin_wallet": True}
"""Settings for the operator's side, which any source may change."""

_ON_THE_SCREEN = ("rpc_refused",)
"""Events of the log that have a line among the requests."""
_OWN_KEYS = ("private_keys", "private_keys_file", "keystore_dir")


def dev_settings(data_dir: Path, policy: str) -> CommandSettings:
    """The settings that the command brings along, over this data directory."""
    fixed = {
        "host": "127.0.0.1",
        "data_dir": data_dir,
        "test": True,
        "dev_accounts": True,
        "dev_accounts_public": False,
        "allow_private_webhooks": True,
        "admin_token": new_secret(os.urandom),
        "approve": "auto" if policy == "approve" else policy,
    }
    return CommandSettings(COMMAND, fixed, _DEFAULTS)


def refuse_own_keys(loaded: LoadedSettings) -> None:
    """Raise CommandError for keys that are worth something: every program here has this wallet sign."""
    named = [name for name in _OWN_KEYS if getattr(loaded.settings, name) is not None]
    if named:
        where = ", ".join(f"{name} ({loaded.origins[name]})" for name in named)
        raise CommandError(
            f"{where}: dev signs for every program on this machine, with published keys only: "
            "leave it out, or use serve"
        )


# The parts of `dev` beside the server: banner, request lines, a listener for phones, a ready file.

_LINK_MS = 12 * 3600 * 1000
"""The time in which the link of the banner signs in: a terminal is read later than a command's output."""

PROJECT_ID = "demo"
DEMO_NAME = "Demo"
DEMO_TYPES: Mapping[str, str] = MappingProxyType({"news": "News", "alerts": "Alerts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """The options of the command."""

    data: DevData
    address_for_phones: str | None = None
    config_out: Path | None = None
    opens: bool = False
    shows: bool = False
    """Whether dapps and a wallet demonstrate the server."""


@asynccontextmanager
async def beside_dev(options: DevOptions, server: Started) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the banner's facts for the ready file."""
    if options.opens and CONSOLE_URL not in server.facts:
        raise CommandError("--open: the console is off: leave out --open, or set console=on")
    output, screen = Output(), screen_of(sys.stdout)
    async with AsyncExitStack() as stack:
        lan_url = None
        if options.address_for_phones is not None:
            application, port = server.built.lan_application(server.url), urlsplit(server.url).port or 0
            listening = lan_listening(application, options.address_for_phones, port)
            lan_url = await stack.enter_async_context(listening)
        facts = dev_facts(options, server, lan_url)
        every_fact = {**server.facts, **facts}
        stack.enter_context(config_file_at(options.config_out, every_fact))
        link = await _console_link(server)
        output.write(dev_banner(every_fact, screen, typed_command(), link))
        if server.built.traffic is not None:
            lines = TrafficLines(server.built.traffic, output.write, screen)
            await stack.enter_async_context(running(lines.run_forever()))
        if options.opens and (opened := await _console_link(server)) is not None:
            await stack.enter_async_context(running(open_console(opened, output.write)))
        if options.shows:
            demo = import_module("bridge_server.cli.dev.demo")  # late: it loads the client library
            await stack.enter_async_context(running(demo.demonstrate(every_fact)))
        yield facts


async def _console_link(server: Started) -> str | None:
    """A new link that signs in to the console once; None while the console is off."""
    new_link = server.built.new_console_link
    return None if new_link is None else sign_in_link(server.facts[CONSOLE_URL], await new_link(_LINK_MS))


def dev_facts(options: DevOptions, server: Started, lan_url: str | None) -> dict[str, Any]:
    """The banner's lines beyond the facts of every server."""
    settings = server.settings
    return {
        "test_token": server.built.test_token,
        "v07_url": server.url + V07.path,
        **({} if lan_url is None else {"lan_url": lan_url}),
        "chain_id": settings.known_chain_id,
        "has_node": settings.node_url is not None,
        "policy": "approve" if settings.approve == "auto" else "queue",
        "project": {
            "id": PROJECT_ID, "secret": options.data.project_secret, "types": list(DEMO_TYPES),
        },
        "admin_token": secret_of(settings.admin_token),
        "accounts": list(accounts_for_development(settings)),
        "data_dir": str(settings.data_dir),
        "kept": options.data.is_kept,
    }  # fmt: skip


# The command.


@click.command("dev")
@port_option
@click.option("--lan", is_flag=True, help="Let phones in the local network reach the bridge, and only that.")
@click.option("--open", "opens", is_flag=True, help="Open the console in the browser.")
@node_url_option
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
def dev_command(**options: Any) -> None:
    """Run a server for development.

    Nothing is kept, and everybody knows the keys. It listens on this machine alone, signs with published
    accounts, has a project to send notifications with, and prints a line for each request.
    """
    _run(**options)


@click.command("demo")
@port_option
@ready_file_option
@stop_with_parent_option
def demo_command(port: int | None, ready_file: Path | None) -> None:
    """Run dev with notifications and live sessions.

    Dapps of three generations call a wallet, and the console opens in the browser.
    """
    _run(opens=True, shows=True, ready_file=ready_file, port=port)


def _run(
    *,
    lan: bool = False,
    opens: bool = False,
    shows: bool = False,
    policy: str = "approve",
    keep: Path | None = None,
    config_out: Path | None = None,
    config_file: Path | None = None,
    assignments: tuple[str, ...] = (),
    ready_file: Path | None = None,
    **flags: Any,
) -> None:
    with DevData(keep) as data:
        command = dev_settings(data.path, policy)
        loaded = loaded_settings(config_file, assignments, command, **flags)
        refuse_own_keys(loaded)
        configure_logs(loaded.settings.log_level, loaded.settings.log_format, _ON_THE_SCREEN)
        warn_of_mistakes(loaded)
        address = lan_address() if lan else None
        if lan and address is None:
            raise CommandError(
                "--lan: this machine is in no network in which a phone could reach it: connect it to one, or "
                "leave out --lan"
            )
        # The first account for development is subscribed to the project.
        account = f"eip155:1:{next(accounts_for_development(loaded.settings))['address']}"
        options = DevOptions(
            data=data, address_for_phones=address, config_out=config_out, opens=opens, shows=shows
        )
        run_server(
            ServerRun(
                settings=loaded.settings,
                origins=loaded.origins,
                reload=partial(reread_settings, config_file, assignments, command, **flags),
                companion=partial(beside_dev, options),
                ready_file=ready_file,
                demo=DemoProject(PROJECT_ID, DEMO_NAME, data.project_secret, DEMO_TYPES, account),
                logs_start=False,
                address_options="--port",
                abandon=partial(_abandon, data, ready_file, config_out),
            )
        )


def _abandon(data: DevData, ready_file: Path | None, config_out: Path | None) -> None:
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    if config_out is not None:
        remove_config_file(config_out)
    data.remove()
