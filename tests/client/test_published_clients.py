"""The published clients of generation 0.7 opposite this one: each as the other's dapp and wallet."""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from bridge_server.kit.client import CallFailedError, Dapp, Pairing, Wallet
from tests.client.pairs import ACCOUNT, BRISK
from tests.support.node_packages import PACKAGES, needs_node
from tests.support.server import RunningServer

PATIENCE_SECONDS = 240
PAIRINGS = [
    Pairing(url, session_id, bytes([number]) * 32, name)
    for number, (url, session_id, name) in enumerate(
        [
            ("https://bridge.example", "8a5e5bdc-a0e4-4702-ba63-8f1a5655744f", "Example Dapp"),
            ("http://127.0.0.1:8080/compat/v0.7", "8A5E5BDC", "100% & more"),
            ("https://bridge.example/a%20b&c", "id_", "%26 %2526 %"),
            ("https://bridge.example/%41", "-", "a=b?c#d/e:f@1;h,i+j"),
            ("https://bridge.example", "x" * 128, "Exämple 😀 \u2028 \"'`<>\\\n"),
        ]
    )
]


THEIR_ACCOUNT = "0x5409ed021d9299bf6814279a6a1411a7e866a631"


@asynccontextmanager
async def node_peers(**orders: Any) -> AsyncIterator[asyncio.StreamReader]:
    """What the published clients print, while they do what they are ordered to."""
    process = await asyncio.create_subprocess_exec(
        "node", PACKAGES / "python_peers.js", json.dumps(orders), stdout=PIPE
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@needs_node
async def test_python_and_the_published_clients_understand_each_other(server: RunningServer) -> None:
    bridge = f"{server.url}/compat/v0.7"
    uris = [pairing.uri for pairing in PAIRINGS]
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Dapp(bridge, name="Dapp & Söhne", pace=BRISK) as dapp,
        node_peers(bridge=bridge, uri=dapp.uri, pairings=uris) as printed,
    ):
        their_uri = json.loads(await printed.readline())["uri"]
        asked, seen = await asyncio.gather(_be_dapp(dapp), _be_wallet(their_uri))
        told = json.loads(await printed.readline())

    assert asked == ((THEIR_ACCOUNT,), 5, ["personal_sign", ["0xab", 1, None]], 4001)
    assert seen == [
        ("eth_sendTransaction", [{"from": THEIR_ACCOUNT, "value": "0x1"}]),
        ("eth_sign", [THEIR_ACCOUNT, "0x68656c6c6f"]),
    ]
    assert told["asDapp"] == {
        "accounts": [ACCOUNT],
        "result": "0x" + "ab" * 32,
        "failure": "Rejected: Signed Message Request",
    }
    assert told["asWallet"]["dappName"] == "Dapp & Söhne"
    assert told["asWallet"]["request"].keys() == {"id", "jsonrpc", "method", "params"}
    assert told["readings"] == [
        [pairing.bridge_url, pairing.session_id, pairing.key.hex(), pairing.name] for pairing in PAIRINGS
    ]


async def _be_dapp(dapp: Dapp) -> tuple[tuple[str, ...], int | None, Any, int]:
    """Have one call answered and one refused."""
    approval = await dapp.approval()
    answered = await dapp.request("personal_sign", ["0xab", 1, None])
    refused = await dapp.request("eth_sign", [])
    result = await dapp.result(answered)
    with pytest.raises(CallFailedError) as refusal:
        await dapp.result(refused)
    return approval.accounts, approval.chain_id, result, refusal.value.code


async def _be_wallet(uri: str) -> list[tuple[str, Any]]:
    """Send a transaction, refuse a signature; returns what was asked."""
    seen: list[tuple[str, Any]] = []
    async with Wallet.from_uri(uri, pace=BRISK) as wallet:
        await wallet.approve([ACCOUNT])
        async for call in wallet.calls():
            seen.append((call.method, call.params))
            if call.method == "eth_sendTransaction":
                await wallet.answer(call, "0x" + "ab" * 32)
            else:
                await wallet.refuse(call)
                break
    return seen
