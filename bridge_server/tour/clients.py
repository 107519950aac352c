"""A dapp and a wallet of the Python client library."""

import asyncio
from contextlib import aclosing

from bridge_server.client import Dapp, Wallet
from bridge_server.tour.transcript import line, say

_ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"


async def clients_scene(url: str) -> None:
    """Pairing, approval, call, answer and farewell."""
    say("The classes Dapp and Wallet of bridge_server.client do the same in a few lines of Python.")
    async with Dapp(url, name="Example Dapp") as dapp, Wallet.from_uri(dapp.uri) as wallet:
        line("dapp", f"shows {dapp.uri}")
        await wallet.approve([_ACCOUNT])
        line("dapp", "is approved for", (await dapp.approval()).accounts)
        result = asyncio.create_task(dapp.call("personal_sign", ["0x68656c6c6f", _ACCOUNT]))
        async with aclosing(wallet.calls()) as calls:
            call = await anext(calls)
        line("wallet", f"is asked for {call.method}", call.params)
        await wallet.answer(call, "0x5f1c...1b")
        line("dapp", "has the signature", await result)
        await dapp.end()
