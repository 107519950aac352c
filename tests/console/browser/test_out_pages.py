"""The pages Wallet, Webhooks, Pushes and Settings in Debian's Chromium: a person's steps, and axe-core."""

import asyncio
from pathlib import Path
from typing import Any

from tests.support.browser_tests import BROWSER_MARKS, run_console_specification
from tests.support.console_client import ConsoleClient
from tests.support.eventually import eventually
from tests.support.irn_client import Identity, irn_connected, topic_of
from tests.support.push_client import PushClient
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import RunningServer, running_server

_SPECIFICATION = Path(__file__).parent / "out.spec.js"
_PROJECTS = "/console/projects"
_ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
_SETTINGS: dict[str, Any] = {
    "console": True,
    "test": True,
    "dev_accounts": True,
    "dev_account_count": 1,
    "approve": "queue",
    "approval_timeout": 3600,
    "admin_wallet": True,
    "light_kdf": True,
    "node_url": "http://127.0.0.1:1",
    "chain_id": 1,
}

pytestmark = BROWSER_MARKS


async def _fill(server: RunningServer) -> "asyncio.Task[Any]":
    """Something on each page; returns a client that waits for approval."""
    browser, rpc = await ConsoleClient(server).sign_in(), RpcClient(server)
    await browser.send("/console/faults", "add", where="webhook", status="503")
    await browser.send(_PROJECTS, "create", name="Shop", project_id="shop")
    await browser.send(f"{_PROJECTS}/shop", "set-webhook", url="https://app.example/hook")
    await browser.send(f"{_PROJECTS}/shop", "subscribe", account=_ACCOUNT)
    push = PushClient(server)
    await push.register(topic="a-topic-of-the-browser", type="fcm", peerName="Shop", language="de")
    await push.push("a-topic-of-the-browser")
    await rpc.call("personal_newAccount", "a passphrase")
    sent = {"from": DEVELOPMENT_ADDRESS, "to": "0x" + "12" * 20, "value": "0x1"}
    await rpc.call("eth_sendTransaction", sent)
    message = "0x" + "<img src=x onerror=alert(1)>\u202e".encode().hex()
    waits = asyncio.create_task(rpc.call("personal_sign", message, DEVELOPMENT_ADDRESS))

    async def all_there() -> bool:
        pages = [await browser.page(f"/console/{name}") for name in ("wallet", "webhooks?state=waiting")]
        return ">waits<" in pages[0] and "app.example" in pages[1]

    await eventually(all_there)
    return waits


async def test_a_person_uses_the_pages_of_what_goes_out(tmp_path: Path) -> None:
    topic = topic_of("a topic of the browser")
    async with (
        running_server(tmp_path / "data", **_SETTINGS) as server,
        irn_connected(server.client, server.url, Identity()) as dapp,
    ):
        waits = await _fill(server)
        await dapp.subscribe(topic)
        await dapp.publish(topic, tag=1100)

        output = await run_console_specification(tmp_path, server, _SPECIFICATION)

        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)

    assert "11 passed" in output
