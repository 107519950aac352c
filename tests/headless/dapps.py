"""Dapps of every generation opposite a headless wallet."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridge_server.kit.client import Dapp, Generation, Pace
from bridge_server.kit.headless import HeadlessSession, HeadlessWallet
from tests.support.clock import ManualClock
from tests.support.server import RunningServer, running_server

GENERATIONS: tuple[Generation, ...] = ("plain", "0.7", "1.x", "2.x")
FIRST = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
SECOND = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
HELLO = "0x68656c6c6f"
PAGE = "https://dapp.example"
BRISK = Pace(pause_seconds=0.01, first_retry_seconds=0.005, longest_retry_seconds=0.02, patience_seconds=60.0)

NAMESPACES = {
    "eip155": {
        "chains": ["eip155:31337"],
        "methods": [
            "personal_sign",
            "eth_sendTransaction",
            "eth_signTypedData_v4",
            "eth_accounts",
            "wallet_switchEthereumChain",
            "odd_method",
        ],
        "events": ["chainChanged", "accountsChanged"],
    }
}


@asynccontextmanager
async def relay_at(data_dir: Path, **settings: Any) -> AsyncIterator[RunningServer]:
    """A server whose clock stands at the present, for it checks the tokens of generation 2.x."""
    async with running_server(data_dir, ManualClock(time.time_ns() // 1_000_000), **settings) as server:
        yield server


def dapp_at(url: str, generation: Generation) -> Dapp:
    """A dapp of the generation, in its own dialect of the bridge."""
    bridge = f"{url}/compat/v0.7" if generation == "0.7" else url
    if generation == "2.x":
        return Dapp(
            bridge, name="Example Dapp", url=PAGE, generation=generation, namespaces=NAMESPACES, pace=BRISK
        )
    return Dapp(bridge, name="Example Dapp", url=PAGE, generation=generation, pace=BRISK)


@asynccontextmanager
async def paired(
    wallet: HeadlessWallet, url: str, generation: Generation
) -> AsyncIterator[tuple[Dapp, HeadlessSession]]:
    """A dapp, and its session with the wallet."""
    async with dapp_at(url, generation) as dapp:
        session = await wallet.pair(dapp.uri, relay_url=url)
        yield dapp, session
