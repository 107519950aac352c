"""A dapp and a wallet of any generation, paired; and programs that stand for the people at them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import aiohttp

from bridge_server.kit.client import Call, Dapp, Generation, Pace, Wallet

ACCOUNT = "0x00000000219ab540356cbb839cbe05303d7705fa"
OVER_HTTP: tuple[Generation, ...] = ("plain", "0.7")
OVER_SOCKETS: tuple[Generation, ...] = ("1.x", "2.x")
GENERATIONS = OVER_HTTP + OVER_SOCKETS
NAMESPACES = {
    "eip155": {
        "chains": ["eip155:1"],
        "methods": ["personal_sign", "eth_sign", "eth_accounts", "eth_chainId"],
        "events": ["chainChanged"],
    }
}
BRISK = Pace(pause_seconds=0.01, first_retry_seconds=0.005, longest_retry_seconds=0.02, patience_seconds=60.0)
"""For bridges that answer at once, or fail."""


@asynccontextmanager
async def paired(
    bridge_url: str,
    wallet_url: str | None = None,
    pace: Pace = BRISK,
    http: aiohttp.ClientSession | None = None,
) -> AsyncIterator[tuple[Dapp, Wallet]]:
    """Both sides of a session that is approved; the wallet may use another URL of that bridge."""
    async with Dapp(bridge_url, name="Example Dapp", pace=pace, http=http) as dapp:
        pairing = replace(dapp.pairing, bridge_url=wallet_url or bridge_url)
        async with Wallet(pairing, pace=pace, http=http) as wallet:
            await wallet.approve([ACCOUNT])
            yield dapp, wallet


def bridge_of(url: str, generation: Generation) -> str:
    """The bridge of a server in the dialect of the generation."""
    return f"{url}/compat/v0.7" if generation == "0.7" else url


def dapp_at(url: str, generation: Generation, *, pace: Pace = BRISK, **options: Any) -> Dapp:
    """A dapp of the generation, which asks for all that the tests need."""
    if generation == "2.x":
        options = {"namespaces": NAMESPACES, **options}
    page, bridge = "https://dapp.example", bridge_of(url, generation)
    return Dapp(bridge, name="Example Dapp", url=page, generation=generation, pace=pace, **options)


def wallet_for(dapp: Dapp, url: str, pace: Pace = BRISK) -> Wallet:
    """The wallet that scans the dapp's URI. Only generation 2.x needs the URL."""
    return Wallet.from_uri(dapp.uri, relay_url=url, name="Example Wallet", pace=pace)


@asynccontextmanager
async def paired_over(url: str, generation: Generation) -> AsyncIterator[tuple[Dapp, Wallet]]:
    """Both sides of a session of the generation that is approved."""
    async with dapp_at(url, generation) as dapp, wallet_for(dapp, url) as wallet:
        await wallet.approve([ACCOUNT])
        await dapp.approval()
        yield dapp, wallet


async def echo_one(wallet: Wallet, call: Call) -> None:
    """Answer a call with its own method and parameters."""
    await wallet.answer(call, [call.method, call.params])


@asynccontextmanager
async def echoing(*wallets: Wallet) -> AsyncIterator[None]:
    """Let wallets answer every call so until the block is left."""

    async def echo(wallet: Wallet) -> None:
        async for call in wallet.calls():
            await echo_one(wallet, call)

    tasks = [asyncio.create_task(echo(wallet)) for wallet in wallets]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def next_call(wallet: Wallet) -> Call:
    """The first call that the wallet was not told of yet."""
    async with aclosing(wallet.calls()) as calls:
        return await anext(calls)
