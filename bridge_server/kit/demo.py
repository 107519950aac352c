"""Notifications, and dapps that call a wallet: what `bridge-server demo` shows beside `dev`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import aiohttp

from bridge_server.kit.client import BridgeClientError, Dapp, Generation, Notifier, Wallet

_NOTIFICATIONS = (
    ("news", "Your order is on its way", "It should be with you on Friday."),
    ("alerts", "Price alert", "ETH is above your limit."),
    ("news", "New in the shop", "This week: everything for the garden."),
)
"""Type, title and body."""

_GENERATIONS: tuple[Generation, ...] = ("plain", "1.x", "2.x")
_PAUSE_SECONDS = 5.0
_PATIENCE_SECONDS = 60.0

_Sign: TypeAlias = Callable[[str, Any], Awaitable[Any]]


async def demonstrate(facts: Mapping[str, Any]) -> None:
    """Send notifications, and have dapps of three generations call a wallet. `facts` are the banner's."""
    url, project, account = facts["url"], facts["project"], facts["accounts"][0]["address"]
    async with Notifier(url, project["id"], project["secret"]) as notifier:
        for type_id, title, body in _NOTIFICATIONS:
            await notifier.notify(type_id, title, body, [f"eip155:1:{account}"])
    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:

        async def sign(method: str, params: Any) -> Any:
            """The server's wallet, with which the wallet of each session signs."""
            fields = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with http.post(facts["rpc_url"], json=fields) as response:
                return (await response.json())["result"]

        for generation in _GENERATIONS:
            group.create_task(_sessions(url, generation, account, sign))


async def _sessions(url: str, generation: Generation, account: str, sign: _Sign) -> None:
    """Hold a session; after its end, such as a reset of the server, another one."""
    while True:
        try:
            async with Dapp(url, name="Demo Shop", generation=generation) as dapp:
                relay_url = url if generation == "2.x" else None
                async with (
                    Wallet.from_uri(dapp.uri, relay_url=relay_url, name="Demo Wallet") as wallet,
                    asyncio.TaskGroup() as group,
                ):
                    group.create_task(_answer(wallet, account, sign))
                    group.create_task(_ask(dapp))
        except* (BridgeClientError, aiohttp.ClientError, KeyError):
            await asyncio.sleep(_PAUSE_SECONDS)


async def _ask(dapp: Dapp) -> None:
    accounts = (await dapp.approval(_PATIENCE_SECONDS)).accounts
    order = 1
    while True:
        message = f"Order {order}".encode().hex()
        await dapp.call("personal_sign", [f"0x{message}", accounts[0]], _PATIENCE_SECONDS)
        await asyncio.sleep(_PAUSE_SECONDS)
        order += 1


async def _answer(wallet: Wallet, account: str, sign: _Sign) -> None:
    await wallet.approve([account])
    async for call in wallet.calls():
        await wallet.answer(call, await sign(call.method, call.params))
