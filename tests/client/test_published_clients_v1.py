"""The published client of generation 1.x opposite the Python client: each as the other's dapp and wallet."""

import asyncio
from typing import Any

import orjson
import pytest

from bridge_server.kit.client import CallFailedError, Dapp, Wallet
from tests.client.node_peers import node_peers
from tests.client.pairs import ACCOUNT, BRISK
from tests.support.node_packages import needs_node
from tests.support.server import RunningServer

PATIENCE_SECONDS = 240
THEIR_ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
LARGE = "x" * 50 * 1024


@needs_node
async def test_python_and_the_published_client_of_1x_understand_each_other(relay: RunningServer) -> None:
    url = relay.url
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Dapp(url, name="Dapp & Söhne", url="https://dapp.example", generation="1.x", pace=BRISK) as dapp,
        node_peers("v1_python_peers.js", bridge=url, uri=dapp.uri) as printed,
        asyncio.TaskGroup() as tasks,
    ):
        asked = tasks.create_task(_be_dapp(dapp))
        uris = orjson.loads(await printed.readline())
        seen = tasks.create_task(_be_wallet(uris["dapp"]))
        tasks.create_task(_reject(uris["rejected"]))
        said = orjson.loads(await printed.readline())

    assert asked.result() == {
        "accounts": (THEIR_ACCOUNT,),
        "chains": [5, 100],
        "signed": [["eth_sign", [number]] for number in range(5)],
        "large": len(LARGE),
        "refused": (-32_000, "not today"),
    }
    assert said["asWallet"] == {
        "asked": {"name": "Dapp & Söhne", "description": "", "url": "https://dapp.example", "icons": []},
        "calls": [*["eth_sign"] * 6, "eth_sendTransaction"],
        "connected": False,
    }
    assert seen.result() == [*["eth_sign"] * 4, "eth_sendTransaction"]
    assert said["asDapp"] == {
        "accounts": [ACCOUNT],
        "wallet": "Safe",
        "several": [["eth_sign", [THEIR_ACCOUNT, f"0x0{number}"]] for number in (1, 2, 3)],
        "large": len(LARGE),
        "refused": "The user rejected the request.",
        "update": {"chainId": 100, "accounts": [ACCOUNT]},
        "connected": False,
    }
    assert said["rejection"] == {"message": "Session Rejected"}


async def _be_dapp(dapp: Dapp) -> dict[str, Any]:
    """Have calls answered and one refused, hear of an update, and leave."""
    approval = await dapp.approval()
    signed = await asyncio.gather(*(dapp.call("eth_sign", [number]) for number in range(5)))
    large = await dapp.call("eth_sign", [LARGE])
    with pytest.raises(CallFailedError) as refusal:
        await dapp.call("eth_sendTransaction", [{}])
    updated = await anext(dapp.updates())
    await dapp.end()
    return {
        "accounts": approval.accounts,
        "chains": [approval.chain_id, updated.chain_id],
        "signed": signed,
        "large": len(large[1][0]),
        "refused": (refusal.value.code, refusal.value.message),
    }


async def _be_wallet(uri: str) -> list[str]:
    """Answer calls; refuse a transaction, and then change the chain and leave."""
    seen: list[str] = []
    async with Wallet.from_uri(uri, name="Safe", pace=BRISK) as wallet:
        await wallet.approve([ACCOUNT])
        async for call in wallet.calls():
            seen.append(call.method)
            if call.method == "eth_sendTransaction":
                await wallet.refuse(call)
                await wallet.approve([ACCOUNT], chain_id=100)
                await wallet.end()
            else:
                await wallet.answer(call, [call.method, call.params])
    return seen


async def _reject(uri: str) -> None:
    async with Wallet.from_uri(uri, pace=BRISK) as wallet:
        assert (await wallet.proposal()).url == "https://rejected.example"
        await wallet.reject()
