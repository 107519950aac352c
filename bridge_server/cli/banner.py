"""The text that `serve` prints on a terminal when the server is ready: its URLs and a first request."""

from collections.abc import Iterable

from bridge_server.assembly.wallet_accounts import keys_for_development
from bridge_server.cli.reachable_url import url_for_others
from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.mnemonic import DEVELOPMENT_MNEMONIC
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.relay.v07 import V07
from bridge_server.settings.settings import Settings
from bridge_server.version import NAME, VERSION
from bridge_server.wallet.private_keys import development_secrets


def banner(url: str, settings: Settings) -> str:
    """The lines to print. `url` is the server's URL on its own machine."""
    own = settings.public_url or url_for_others(url, settings.host)
    lines = [
        f"{NAME} {VERSION}",
        f"  bridge    {own}",
        f"  0.7       {own}{V07.path}",
        f"  wallet    {url}/rpc{_chain(settings)}",
        f"  database  {settings.database_name}",
        f"  try       curl -X POST {url}/session/new",
        "  stop      Ctrl-C",
    ]
    return "\n".join((*lines, *_development_accounts(settings)))


def _chain(settings: Settings) -> str:
    if settings.known_chain_id is not None:
        return f" (chain {settings.known_chain_id})"
    return " (the node's chain)" if settings.node_url is not None else ""


def _development_accounts(settings: Settings) -> Iterable[str]:
    """The addresses of development accounts, with their private keys if these are the published ones."""
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
