"""A dapp and a wallet in a session over a WebSocket, of generation 1.x or 2.x."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bridge_server.kit.client import Dapp, Generation, Pace, Wallet
from tests.client.pairs import ACCOUNT, BRISK

NAMESPACES = {
    "eip155": {
        "chains": ["eip155:1"],
        "methods": ["personal_sign", "eth_sign", "eth_accounts", "eth_chainId", "no"],
        "events": ["chainChanged"],
    }
}


def dapp_at(url: str, generation: Generation, *, pace: Pace = BRISK, **options: Any) -> Dapp:
    """A dapp of the generation, which asks for all that the tests need."""
    if generation == "2.x":
        options = {"namespaces": NAMESPACES, **options}
    return Dapp(
        url, name="Example Dapp", url="https://dapp.example", generation=generation, pace=pace, **options
    )


def wallet_for(dapp: Dapp, url: str, pace: Pace = BRISK) -> Wallet:
    """The wallet that scans the dapp's URI. Only generation 2.x needs the URL."""
    return Wallet.from_uri(dapp.uri, relay_url=url, name="Example Wallet", pace=pace)


@asynccontextmanager
async def paired_over(
    url: str, generation: Generation, pace: Pace = BRISK
) -> AsyncIterator[tuple[Dapp, Wallet]]:
    """Both sides of a session that is approved."""
    async with dapp_at(url, generation, pace=pace) as dapp, wallet_for(dapp, url, pace) as wallet:
        await wallet.approve([ACCOUNT])
        await dapp.approval()
        yield dapp, wallet
