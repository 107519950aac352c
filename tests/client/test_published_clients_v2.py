"""The published clients of generation 2.x opposite the Python client: each as the other's dapp and wallet."""

import asyncio
from typing import Any

import orjson
import pytest

from bridge_server.kit.client import CallFailedError, Dapp, Event, Wallet
from tests.client.node_peers import node_peers
from tests.client.pairs import ACCOUNT, BRISK
from tests.support.node_packages import needs_node
from tests.support.server import RunningServer

PATIENCE_SECONDS = 240
THEIR_ACCOUNT = "0x5409ed021d9299bf6814279a6a1411a7e866a631"
CALLS = [*["personal_sign"] * 6, "eth_sign", "eth_sendTransaction"]
LARGE = "x" * 100 * 1024


@needs_node
async def test_python_and_the_published_clients_of_2x_understand_each_other(relay: RunningServer) -> None:
    url = relay.url.replace("http:", "ws:")
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Dapp(url, name="Dapp & Söhne", url="https://dapp.example", generation="2.x", pace=BRISK) as dapp,
        node_peers("v2_python_peers.js", relay=url, uri=dapp.uri) as printed,
        asyncio.TaskGroup() as tasks,
    ):
        asked = tasks.create_task(_be_dapp(dapp))
        uris = orjson.loads(await printed.readline())
        seen = tasks.create_task(_be_wallet(uris["dapp"], url))
        tasks.create_task(_reject(uris["rejected"], url))
        opposite_provider = tasks.create_task(_be_wallet(uris["provider"], url))
        said = orjson.loads(await printed.readline())

    assert asked.result() == {
        "accounts": (THEIR_ACCOUNT,),
        "chains": [5, 137],
        "signed": [["personal_sign", [number]] for number in range(5)],
        "large": len(LARGE),
        "refused": (4001, "not today"),
        "event": Event("accountsChanged", [THEIR_ACCOUNT], "eip155:5"),
    }
    assert said["asWallet"] == {
        "proposer": {"name": "Dapp & Söhne", "description": "", "url": "https://dapp.example", "icons": []},
        "calls": [[method, "eip155:5"] for method in CALLS],
        "pinged": True,
        "sessions": 0,
    }
    assert seen.result() == CALLS
    assert said["asDapp"] == {
        "accounts": [f"eip155:1:{ACCOUNT}"],
        "wallet": "Safe",
        "several": [["personal_sign", [number]] for number in range(1, 6)],
        "large": len(LARGE),
        "refused": [4001, "The user rejected the request."],
        "event": ["chainChanged", 100, "eip155:1"],
        "update": [f"eip155:100:{ACCOUNT}"],
        "sessions": 0,
    }
    assert said["rejected"] == [5000, "User rejected."]
    assert opposite_provider.result() == ["personal_sign", "eth_sign"]
    assert said["asProvider"] == {
        "accounts": [ACCOUNT],
        "chainId": 1,
        "signed": ["personal_sign", ["0x68656c6c6f", ACCOUNT]],
        "refused": [4001, "The user rejected the request."],
    }


async def _be_dapp(dapp: Dapp) -> dict[str, Any]:
    """Have calls answered and one refused, hear of an event and an update, and leave."""
    approval = await dapp.approval()
    signed = await asyncio.gather(*(dapp.call("personal_sign", [number]) for number in range(5)))
    large = await dapp.call("personal_sign", [LARGE])
    with pytest.raises(CallFailedError) as refusal:
        await dapp.call("eth_sign", [])
    await dapp.ping()
    await dapp.call("eth_sendTransaction", [{}])
    event = await anext(dapp.events())
    updated = await anext(dapp.updates())
    await dapp.ping()
    await dapp.end()
    return {
        "accounts": approval.accounts,
        "chains": [approval.chain_id, updated.chain_id],
        "signed": signed,
        "large": len(large[1][0]),
        "refused": (refusal.value.code, refusal.value.message),
        "event": event,
    }


async def _be_wallet(uri: str, relay: str) -> list[str]:
    """Answer calls and refuse `eth_sign`; after a transaction, change everything and leave."""
    seen: list[str] = []
    async with Wallet.from_uri(uri, relay_url=relay, name="Safe", pace=BRISK) as wallet:
        await wallet.approve([ACCOUNT])
        async for call in wallet.calls():
            seen.append(call.method)
            if call.method == "eth_sign":
                await wallet.refuse(call)
            else:
                await wallet.answer(call, [call.method, call.params])
            if call.method == "eth_sendTransaction":
                await wallet.emit("chainChanged", 100, "eip155:1")
                await wallet.approve([ACCOUNT], chain_id=100)
                await wallet.extend()
                await wallet.ping()
                await wallet.end()
    return seen


async def _reject(uri: str, relay: str) -> None:
    async with Wallet.from_uri(uri, relay_url=relay, pace=BRISK) as wallet:
        assert (await wallet.proposal()).url == "https://rejected.example"
        await wallet.reject()
