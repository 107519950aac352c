"""A dapp and a wallet, paired; and programs that stand for the people at them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace

import aiohttp

from bridge_server.kit.client import Call, Dapp, Pace, Wallet

ACCOUNT = "0x00000000219ab540356cbb839cbe05303d7705fa"
BRISK = Pace(pause_seconds=0.01, first_retry_seconds=0.005, longest_retry_seconds=0.02, patience_seconds=60.0)
"""For bridges that answer at once, or fail."""
BY_LONG_POLLS_ONLY = Pace(pause_seconds=3_600.0)
"""Who depends on being asked a second time is never heard."""


@asynccontextmanager
async def paired(
    bridge_url: str,
    wallet_url: str | None = None,
    pace: Pace = BRISK,
    http: aiohttp.ClientSession | None = None,
) -> AsyncIterator[tuple[Dapp, Wallet]]:
    """Both sides of a session that is approved; the wallet may use another URL of the same bridge."""
    async with Dapp(bridge_url, name="Example Dapp", pace=pace, http=http) as dapp:
        pairing = replace(dapp.pairing, bridge_url=wallet_url or bridge_url)
        async with Wallet(pairing, pace=pace, http=http) as wallet:
            await wallet.approve([ACCOUNT])
            yield dapp, wallet


async def echo(wallet: Wallet) -> None:
    """Answer every call with its own method and parameters, and refuse those of `no`."""
    async for call in wallet.calls():
        await echo_one(wallet, call)


async def echo_one(wallet: Wallet, call: Call) -> None:
    """Answer one call as `echo` does."""
    if call.method == "no":
        await wallet.refuse(call)
    else:
        await wallet.answer(call, [call.method, call.params])


@asynccontextmanager
async def echoing(*wallets: Wallet) -> AsyncIterator[None]:
    """Let wallets `echo` until the block is left."""
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
