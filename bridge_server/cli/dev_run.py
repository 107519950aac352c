"""The parts of `dev` beside the server: banner, request lines, a listener for phones, a ready file."""

import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from bridge_server.cli.config_out import config_file_at
from bridge_server.cli.dev_banner import dev_banner
from bridge_server.cli.dev_data import DevData
from bridge_server.cli.listening import lan_listening
from bridge_server.cli.open_console import open_console
from bridge_server.cli.options import CommandError
from bridge_server.cli.program import typed_command
from bridge_server.cli.screen import Output, screen_of
from bridge_server.cli.serving import Started
from bridge_server.cli.traffic_lines import TrafficLines
from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.mnemonic import DEVELOPMENT_MNEMONIC
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.background import running
from bridge_server.relay.v07 import V07
from bridge_server.settings.settings import Settings
from bridge_server.wallet.private_keys import development_secrets

PROJECT_ID = "demo"
DEMO_NAME = "Demo"
DEMO_TYPES: Mapping[str, str] = MappingProxyType({"news": "News", "alerts": "Alerts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """The options of the command."""

    data: DevData
    admin_token: str
    address_for_phones: str | None = None
    config_out: Path | None = None
    opens: bool = False
    approves: bool = True


@asynccontextmanager
async def beside_dev(options: DevOptions, server: Started) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the banner's facts for the ready file."""
    if options.opens:
        _require_console(server)
    output, screen = Output(), screen_of(sys.stdout)
    async with AsyncExitStack() as stack:
        lan_url = None
        if options.address_for_phones is not None:
            application = server.built.lan_application(server.url)
            port = urlsplit(server.url).port or 0
            lan_url = await stack.enter_async_context(
                lan_listening(application, options.address_for_phones, port)
            )
        facts = dev_facts(options, server, lan_url)
        stack.enter_context(config_file_at(options.config_out, {**server.facts, **facts}))
        output.write(dev_banner({**server.facts, **facts}, screen, typed_command()))
        if server.built.traffic is not None:
            lines = TrafficLines(server.built.traffic, output.write, screen)
            await stack.enter_async_context(running(lines.run_forever()))
        if options.opens:
            await stack.enter_async_context(running(open_console(server.settings, output.write)))
        yield facts


def _require_console(server: Started) -> None:
    if "console_url" not in server.facts:
        raise CommandError("--open: the console is off: leave out --open, or set console=on")


def dev_facts(options: DevOptions, server: Started, lan_url: str | None) -> dict[str, Any]:
    """The banner's lines beyond the facts of every server."""
    settings = server.settings
    return {
        "test_token": server.built.test_token,
        "v07_url": server.url + V07.path,
        **({} if lan_url is None else {"lan_url": lan_url}),
        "chain_id": settings.known_chain_id,
        "has_node": settings.node_url is not None,
        "policy": "approve" if options.approves else "queue",
        "project": {
            "id": PROJECT_ID, "secret": options.data.project_secret, "types": list(DEMO_TYPES),
        },
        "admin_token": options.admin_token,
        "accounts": list(_accounts(settings)),
        "data_dir": str(settings.data_dir),
        "kept": options.data.is_kept,
    }  # fmt: skip


def _accounts(settings: Settings) -> Iterator[dict[str, str]]:
    """The development accounts, with their keys if these are the published ones."""
    mnemonic = settings.dev_mnemonic.get_secret_value()
    for secret in development_secrets(mnemonic, settings.dev_account_count):
        key = {"private_key": hex_of(secret)} if mnemonic == DEVELOPMENT_MNEMONIC else {}
        yield {"address": SigningKey(secret).address, **key}
