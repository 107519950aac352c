"""The published sign-client opposite the Python client: wallets that sign in, and dapps that ask for it."""

import asyncio
from typing import Any

import orjson
import pytest

from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash
from bridge_server.kit.client import Authentication, Dapp, RejectedError, Wallet
from tests.client.node_peers import node_peers
from tests.client.pairs import BRISK
from tests.client.socket_pairs import dapp_at
from tests.support.node_packages import needs_node
from tests.support.server import RunningServer

PATIENCE_SECONDS = 240
KEY = SigningKey(bytes(31) + b"\x07")
OURS = f"eip155:1:{KEY.address}"
THEIRS = f"eip155:1:{SigningKey(bytes(31) + bytes([9])).address.lower()}"
METHODS = ["eth_sign", "personal_sign"]
RECAP = (
    "Sign in. I further authorize the stated URI to perform the following actions on my behalf: "
    "(1) 'request': 'eth_sign', 'personal_sign' for 'eip155'."
)


def asked() -> Authentication:
    return Authentication(
        "dapp.example",
        "https://dapp.example/login",
        statement="Sign in.",
        methods=("personal_sign", "eth_sign"),
    )


@needs_node
async def test_python_and_the_published_clients_of_2x_sign_in_with_each_other(relay: RunningServer) -> None:
    url = relay.url.replace("http:", "ws:")
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        dapp_at(url, "2.x", authentication=asked()) as dapp,
        dapp_at(url, "2.x", authentication=asked(), one_click=True) as one_click,
        dapp_at(url, "2.x", authentication=asked(), one_click=True) as refused,
        node_peers(
            "v2_sign_in.js", relay=url, proposal=dapp.uri, oneClick=one_click.uri, refused=refused.uri
        ) as printed,
        asyncio.TaskGroup() as tasks,
    ):
        as_dapps = [tasks.create_task(_be_dapp(each)) for each in (dapp, one_click)]
        rejection = tasks.create_task(_be_rejected(refused))
        uris = orjson.loads(await printed.readline())
        for name in ("dapp", "oneClick"):
            tasks.create_task(_sign_in(uris[name], url))
        tasks.create_task(_approve_alone(uris["withoutSignIn"], url))
        tasks.create_task(_reject(uris["rejected"], url))
        said = orjson.loads(await printed.readline())

    assert [task.result() for task in as_dapps] == [((THEIRS,), "0x00"), ((THEIRS,), "0x00")]
    assert rejection.result() == "User rejected."
    issuer = f"did:pkh:{OURS}"
    assert said == {
        "proposed": {"statement": "Sign in."},
        "authenticated": {"statement": RECAP},
        "dapp": {"issuer": issuer, "valid": True, "bound": {"valid": True}, "signed": "0x01"},
        "oneClick": {"issuer": issuer, "methods": METHODS, "signed": "0x01"},
        "withoutSignIn": {"methods": METHODS, "signed": "0x01"},
        "rejected": "User rejected.",
    }


async def _be_dapp(dapp: Dapp) -> tuple[tuple[str, ...], Any]:
    signed_in = (await dapp.approval()).signed_in
    answer = await dapp.call("personal_sign", ["0x00"])
    await dapp.end()
    return signed_in, answer


async def _be_rejected(dapp: Dapp) -> str:
    with pytest.raises(RejectedError) as rejection:
        await dapp.approval()
    return str(rejection.value)


async def _sign_in(uri: str, relay: str) -> None:
    async with Wallet.from_uri(uri, relay_url=relay, pace=BRISK) as wallet:
        (request,) = (await wallet.proposal()).authentications
        signature = KEY.sign(personal_message_hash(request.message(OURS).encode())).hex()
        await wallet.approve([OURS], cacaos=[request.cacao(OURS, f"0x{signature}")])
        await _answer(wallet)


async def _approve_alone(uri: str, relay: str) -> None:
    async with Wallet.from_uri(uri, relay_url=relay, pace=BRISK) as wallet:
        await wallet.approve([OURS])
        await _answer(wallet)


async def _answer(wallet: Wallet) -> None:
    async for call in wallet.calls():
        await wallet.answer(call, "0x01")


async def _reject(uri: str, relay: str) -> None:
    async with Wallet.from_uri(uri, relay_url=relay, pace=BRISK) as wallet:
        await wallet.reject()
