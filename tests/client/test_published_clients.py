"""The published clients of each generation opposite the Python client, as its dapps and wallets."""

import asyncio
import json
from typing import Any

import orjson
import pytest

from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash
from bridge_server.kit.client import (
    Authentication,
    CallFailedError,
    Dapp,
    Event,
    Pairing,
    RejectedError,
    Wallet,
)
from tests.client.pairs import ACCOUNT, BRISK, dapp_at
from tests.support.needs import needs_node, node_peers
from tests.support.server import RunningServer

PATIENCE_SECONDS = 240
PAIRINGS = [
    Pairing("https://bridge.example", "8a5e5bdc-a0e4-4702-ba63-8f1a5655744f", bytes(32), "Example Dapp"),
    Pairing("http://127.0.0.1:8080/compat/v0.7", "8A5E5BDC", b"\1" * 32, "100% & more"),
    Pairing("https://bridge.example/a%20b&c", "id_", b"\2" * 32, "%26 %2526 %"),
    Pairing("https://bridge.example/%41", "-", b"\3" * 32, "a=b?c#d/e:f@1;h,i+j"),
    Pairing("https://bridge.example", "x" * 128, b"\4" * 32, "Exämple 😀 \u2028 \"'`<>\\\n"),
]
THEIR_ACCOUNT = "0x5409ed021d9299bf6814279a6a1411a7e866a631"
THEIR_ACCOUNT_V1 = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
LARGE = {"1.x": "x" * 50 * 1024, "2.x": "x" * 100 * 1024}
PROPOSER = {"name": "Dapp & Söhne", "description": "", "url": "https://dapp.example", "icons": []}
KEY = SigningKey(bytes(31) + b"\x07")
OURS = f"eip155:1:{KEY.address}"
THEIRS = f"eip155:1:{SigningKey(bytes(31) + bytes([9])).address.lower()}"


@needs_node
async def test_python_and_the_published_clients_understand_each_other(relay: RunningServer) -> None:
    bridge = f"{relay.url}/compat/v0.7"
    uris = [pairing.uri for pairing in PAIRINGS]
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Dapp(bridge, name="Dapp & Söhne", pace=BRISK) as dapp,
        node_peers("python_peers.js", bridge=bridge, uri=dapp.uri, pairings=uris) as printed,
    ):
        their_uri = json.loads(await printed.readline())["uri"]
        asked, seen = await asyncio.gather(_be_dapp(dapp), _be_wallet(their_uri))
        told = json.loads(await printed.readline())

    assert asked == ((THEIR_ACCOUNT,), 5, ["personal_sign", ["0xab", 1, None]], 4001)
    assert seen == [
        ("eth_sendTransaction", [{"from": THEIR_ACCOUNT, "value": "0x1"}]),
        ("eth_sign", [THEIR_ACCOUNT, "0x68656c6c6f"]),
    ]
    failure = "Rejected: Signed Message Request"
    assert told["asDapp"] == {"accounts": [ACCOUNT], "result": "0x" + "ab" * 32, "failure": failure}
    assert told["asWallet"]["dappName"] == "Dapp & Söhne"
    assert told["asWallet"]["request"].keys() == {"id", "jsonrpc", "method", "params"}
    assert told["readings"] == [
        [pairing.bridge_url, pairing.session_id, pairing.key.hex(), pairing.name] for pairing in PAIRINGS
    ]


async def _be_dapp(dapp: Dapp) -> tuple[tuple[str, ...], int | None, Any, int]:
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


@needs_node
async def test_python_and_the_published_client_of_1x_understand_each_other(relay: RunningServer) -> None:
    url = relay.url
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Dapp(url, name="Dapp & Söhne", url="https://dapp.example", generation="1.x", pace=BRISK) as dapp,
        node_peers("v1_python_peers.js", bridge=url, uri=dapp.uri) as printed,
        asyncio.TaskGroup() as tasks,
    ):
        asked = tasks.create_task(_be_dapp_of("1.x", dapp))
        uris = orjson.loads(await printed.readline())
        seen = tasks.create_task(_be_wallet_of("1.x", uris["dapp"], url))
        tasks.create_task(_reject(uris["rejected"], url))
        said = orjson.loads(await printed.readline())

    assert asked.result() == {
        "accounts": (THEIR_ACCOUNT_V1,), "chains": [5, 100], "large": len(LARGE["1.x"]),
        "signed": [["eth_sign", [number]] for number in range(5)], "refused": (-32_000, "not today"),
    }  # fmt: skip
    calls = [*["eth_sign"] * 6, "eth_sendTransaction"]
    assert said["asWallet"] == {"asked": PROPOSER, "calls": calls, "connected": False}
    assert seen.result() == calls[2:]
    assert said["asDapp"] == {
        "accounts": [ACCOUNT], "wallet": "Safe", "large": len(LARGE["1.x"]), "connected": False,
        "several": [["eth_sign", [THEIR_ACCOUNT_V1, f"0x0{number}"]] for number in (1, 2, 3)],
        "refused": "The user rejected the request.", "update": {"chainId": 100, "accounts": [ACCOUNT]},
    }  # fmt: skip
    assert said["rejection"] == {"message": "Session Rejected"}


async def _be_dapp_of(generation: str, dapp: Dapp) -> dict[str, Any]:
    """Have calls answered and one refused, hear of an update and in 2.x of an event, and leave."""
    pair = {"1.x": ("eth_sign", "eth_sendTransaction"), "2.x": ("personal_sign", "eth_sign")}
    method, refused = pair[generation]
    approval = await dapp.approval()
    signed = await asyncio.gather(*(dapp.call(method, [number]) for number in range(5)))
    large = await dapp.call(method, [LARGE[generation]])
    with pytest.raises(CallFailedError) as refusal:
        await dapp.call(refused, [{}])
    told: dict[str, Any] = {}
    if generation == "2.x":
        await dapp.ping()
        await dapp.call("eth_sendTransaction", [{}])
        told["event"] = await anext(dapp.events())
    updated = await anext(dapp.updates())
    if generation == "2.x":
        await dapp.ping()
    await dapp.end()
    return told | {
        "accounts": approval.accounts, "chains": [approval.chain_id, updated.chain_id], "signed": signed,
        "large": len(large[1][0]), "refused": (refusal.value.code, refusal.value.message),
    }  # fmt: skip


async def _be_wallet_of(generation: str, uri: str, relay: str) -> list[str]:
    """Answer calls and refuse one; after a transaction change everything and leave."""
    seen: list[str] = []
    async with Wallet.from_uri(uri, relay_url=relay, name="Safe", pace=BRISK) as wallet:
        await wallet.approve([ACCOUNT])
        async for call in wallet.calls():
            seen.append(call.method)
            if call.method == ("eth_sendTransaction" if generation == "1.x" else "eth_sign"):
                await wallet.refuse(call)
            else:
                await wallet.answer(call, [call.method, call.params])
            if call.method == "eth_sendTransaction":
                if generation == "2.x":
                    await wallet.emit("chainChanged", 100, "eip155:1")
                await wallet.approve([ACCOUNT], chain_id=100)
                if generation == "2.x":
                    await wallet.extend()
                    await wallet.ping()
                await wallet.end()
    return seen


async def _reject(uri: str, relay: str, page: str | None = "https://rejected.example") -> None:
    async with Wallet.from_uri(uri, relay_url=relay, pace=BRISK) as wallet:
        assert page is None or (await wallet.proposal()).url == page
        await wallet.reject()


@needs_node
async def test_python_and_the_published_clients_of_2x_understand_each_other(relay: RunningServer) -> None:
    url = relay.url.replace("http:", "ws:")
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Dapp(url, name="Dapp & Söhne", url="https://dapp.example", generation="2.x", pace=BRISK) as dapp,
        node_peers("v2_python_peers.js", relay=url, uri=dapp.uri) as printed,
        asyncio.TaskGroup() as tasks,
    ):
        asked = tasks.create_task(_be_dapp_of("2.x", dapp))
        uris = orjson.loads(await printed.readline())
        seen = tasks.create_task(_be_wallet_of("2.x", uris["dapp"], url))
        tasks.create_task(_reject(uris["rejected"], url))
        opposite_provider = tasks.create_task(_be_wallet_of("2.x", uris["provider"], url))
        said = orjson.loads(await printed.readline())

    calls, refused = (
        [*["personal_sign"] * 6, "eth_sign", "eth_sendTransaction"],
        "The user rejected the request.",
    )
    assert asked.result() == {
        "accounts": (THEIR_ACCOUNT,), "chains": [5, 137], "large": len(LARGE["2.x"]),
        "signed": [["personal_sign", [number]] for number in range(5)], "refused": (4001, "not today"),
        "event": Event("accountsChanged", [THEIR_ACCOUNT], "eip155:5"),
    }  # fmt: skip
    assert said["asWallet"] == {
        "proposer": PROPOSER, "calls": [[each, "eip155:5"] for each in calls], "pinged": True, "sessions": 0
    }  # fmt: skip
    assert seen.result() == calls
    assert said["asDapp"] == {
        "accounts": [f"eip155:1:{ACCOUNT}"], "wallet": "Safe", "large": len(LARGE["2.x"]), "sessions": 0,
        "several": [["personal_sign", [number]] for number in range(1, 6)], "refused": [4001, refused],
        "event": ["chainChanged", 100, "eip155:1"], "update": [f"eip155:100:{ACCOUNT}"],
    }  # fmt: skip
    assert said["rejected"] == [5000, "User rejected."]
    assert opposite_provider.result() == ["personal_sign", "eth_sign"]
    assert said["asProvider"] == {
        "accounts": [ACCOUNT], "chainId": 1, "signed": ["personal_sign", ["0x68656c6c6f", ACCOUNT]],
        "refused": [4001, refused],
    }  # fmt: skip


@needs_node
async def test_python_and_the_published_clients_of_2x_sign_in_with_each_other(relay: RunningServer) -> None:
    url, methods = relay.url.replace("http:", "ws:"), ("personal_sign", "eth_sign")
    asked = Authentication(
        "dapp.example", "https://dapp.example/login", statement="Sign in.", methods=methods
    )
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        dapp_at(url, "2.x", authentication=asked) as dapp,
        dapp_at(url, "2.x", authentication=asked, one_click=True) as one_click,
        dapp_at(url, "2.x", authentication=asked, one_click=True) as refused,
        node_peers(
            "v2_sign_in.js", relay=url, proposal=dapp.uri, oneClick=one_click.uri, refused=refused.uri
        ) as printed,
        asyncio.TaskGroup() as tasks,
    ):
        as_dapps = [tasks.create_task(_sign_in_as_dapp(each)) for each in (dapp, one_click)]
        rejection = tasks.create_task(_be_rejected(refused))
        uris = orjson.loads(await printed.readline())
        for name in ("dapp", "oneClick"):
            tasks.create_task(_sign_in(uris[name], url))
        tasks.create_task(_sign_in(uris["withoutSignIn"], url, signs=False))
        tasks.create_task(_reject(uris["rejected"], url, page=None))
        said = orjson.loads(await printed.readline())

    assert [task.result() for task in as_dapps] == [((THEIRS,), "0x00"), ((THEIRS,), "0x00")]
    assert rejection.result() == "User rejected."
    issuer, sorted_methods = f"did:pkh:{OURS}", ["eth_sign", "personal_sign"]
    recap = (
        "Sign in. I further authorize the stated URI to perform the following actions on my behalf: "
        "(1) 'request': 'eth_sign', 'personal_sign' for 'eip155'."
    )
    assert said == {
        "proposed": {"statement": "Sign in."},
        "authenticated": {"statement": recap},
        "dapp": {"issuer": issuer, "valid": True, "bound": {"valid": True}, "signed": "0x01"},
        "oneClick": {"issuer": issuer, "methods": sorted_methods, "signed": "0x01"},
        "withoutSignIn": {"methods": sorted_methods, "signed": "0x01"},
        "rejected": "User rejected.",
    }


async def _sign_in_as_dapp(dapp: Dapp) -> tuple[tuple[str, ...], Any]:
    signed_in = (await dapp.approval()).signed_in
    answer = await dapp.call("personal_sign", ["0x00"])
    await dapp.end()
    return signed_in, answer


async def _be_rejected(dapp: Dapp) -> str:
    with pytest.raises(RejectedError) as rejection:
        await dapp.approval()
    return str(rejection.value)


async def _sign_in(uri: str, relay: str, *, signs: bool = True) -> None:
    """Approve a session with a sign-in, or alone, and answer calls."""
    async with Wallet.from_uri(uri, relay_url=relay, pace=BRISK) as wallet:
        (request,) = (await wallet.proposal()).authentications
        signature = KEY.sign(personal_message_hash(request.message(OURS).encode())).hex()
        cacaos = [request.cacao(OURS, f"0x{signature}")] if signs else []
        await wallet.approve([OURS], cacaos=cacaos)
        async for call in wallet.calls():
            await wallet.answer(call, "0x01")
