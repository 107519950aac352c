"""A dapp and a wallet over a server that was installed somehow."""

import asyncio
from contextlib import aclosing

from bridge_server.kit.client import Dapp, Wallet

_ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
_PATIENCE_SECONDS = 240


async def pair_over(url: str) -> str:
    """Pair, call and answer; returns what the dapp is answered."""
    async with (
        asyncio.timeout(_PATIENCE_SECONDS),
        Dapp(url, name="Example Dapp") as dapp,
        Wallet.from_uri(dapp.uri) as wallet,
    ):
        await wallet.approve([_ACCOUNT])
        await dapp.approval()
        asked = asyncio.create_task(dapp.call("personal_sign", ["0x68656c6c6f", _ACCOUNT]))
        async with aclosing(wallet.calls()) as calls:
            await wallet.answer(await anext(calls), "0x5f1c")
        return str(await asked)


ANSWERED = "0x5f1c"
