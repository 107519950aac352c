"""What a person at a terminal is told when the server is up: where it is, and what to try."""

import socket
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from bridge_server.assembly.wallet_accounts import keys_for_development
from bridge_server.cli.process import url_of
from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.relay.v07 import V07
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import DEVELOPMENT_MNEMONIC
from bridge_server.version import NAME, VERSION
from bridge_server.wallet.private_keys import development_secrets

_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - they are only recognised here
_FAR_AWAY = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation: nobody is there, and the machine's way to the world leads to them."""
_ANY_PORT = 9


def banner(url: str, settings: Settings) -> str:
    """Several lines. The server answers at this URL on its own machine."""
    own = settings.public_url or _url_for_others(url, settings.host)
    lines = [
        f"{NAME} {VERSION}",
        f"  bridge    {own}",
        f"  0.7       {own}{V07.path}",
        f"  wallet    {url}/rpc{_chain(settings)}",
        f"  database  {settings.database_file}",
        f"  try       curl -X POST {url}/session/new",
        "  stop      Ctrl-C",
    ]
    return "\n".join((*lines, *_development_accounts(settings)))


def _chain(settings: Settings) -> str:
    if settings.known_chain_id is not None:
        return f" (chain {settings.known_chain_id})"
    return " (the node's chain)" if settings.node_url is not None else ""


def _development_accounts(settings: Settings) -> Iterable[str]:
    """Addresses, and the keys as well where they are those that everybody knows."""
    if not settings.dev_accounts:
        return
    mnemonic = settings.dev_mnemonic.get_secret_value()
    if mnemonic != DEVELOPMENT_MNEMONIC:
        yield from (
            "",
            "Accounts for development:",
            *(f"  {key.address}" for key in keys_for_development(settings)),
        )
        return
    yield from ("", "Accounts for development, and their private keys:")
    for secret in development_secrets(mnemonic, settings.dev_account_count):
        yield f"  {SigningKey(secret).address}  {hex_of(secret)}"
    yield "EVERYBODY KNOWS THESE KEYS: never send these accounts anything of value."


def _url_for_others(url: str, host: str) -> str:
    """The URL of a server that listens on every address, as other machines would call it."""
    if host not in _EVERY_ADDRESS:
        return url
    port = urlsplit(url).port or 0
    families = (socket.AF_INET6, socket.AF_INET) if ":" in host else (socket.AF_INET,)
    addresses = filter(None, map(_own_address, families))
    return url_of(next(addresses, socket.gethostname()), port)


def _own_address(family: socket.AddressFamily) -> str | None:
    """The address that this machine's packets come from; None where none can leave it. Nothing is sent."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_FAR_AWAY[family], _ANY_PORT))
        return str(probe.getsockname()[0])
    return None
