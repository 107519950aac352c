"""The console in Debian's Chromium, by Playwright: a person's steps on each page, and axe-core."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from bridge_server.kit.client import Cipher
from tests.support.console_client import ConsoleClient, make_project, new_link, subscribe, subscribe_crowd
from tests.support.node_project import BROWSER_MARKS, run_console_specifications
from tests.support.push_client import PushClient
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import Identity, irn_connected, topic_of
from tests.support.waiting import eventually

_FOLDER = Path(__file__).parent / "browser"
_PROJECTS = _FOLDER / "console.spec.js"
_HOSTILE = '<img src=x onerror="hacked=1">\u202e\'"'
pytestmark = BROWSER_MARKS
_OUT = _FOLDER / "out.spec.js"
_SHOP = "/console/projects/shop"
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
_NOTIFICATIONS = _FOLDER / "notifications.spec.js"
_READER = "test:chain:reader"
_TRAFFIC = _FOLDER / "traffic.spec.js"
_VECTORS = Path(__file__).parents[1] / "vectors"
_KEY = bytes(range(32))
_ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
_CALL = {"id": 7, "jsonrpc": "2.0", "method": "personal_sign", "params": ["0x68656c6c6f", _ADDRESS]}
_HOSTILE_METHOD = '<img src=x onerror="hacked=1">\u202e'


async def test_a_person_uses_each_page(tmp_path: Path) -> None:
    """One browser for the specifications, of which each has a server of its own."""
    async with AsyncExitStack() as stack:
        servers = {
            specification: await stack.enter_async_context(filled(tmp_path / specification.stem))
            for specification, filled in {
                _PROJECTS: projects,
                _NOTIFICATIONS: notifications,
                _OUT: what_goes_out,
                _TRAFFIC: traffic,
            }.items()
        }
        environment = {
            "CONSOLE_LINK": f"{servers[_PROJECTS].url}{await new_link(servers[_PROJECTS])}",
            "CONSOLE_NOTIFICATION": "/notifications/shop/4",
        }

        output = await run_console_specifications(tmp_path, servers, payloads(), environment)

    assert "47 passed" in output  # 13 of projects, 10 of notifications, 10 of what goes out, 14 of traffic


@asynccontextmanager
async def projects(data_dir: Path) -> AsyncIterator[RunningServer]:
    async with running_server(data_dir, console=True, test=True) as server:
        browser = await ConsoleClient(server).sign_in()
        await browser.send("/console/projects", "create", name="Shop", project_id="shop")
        await browser.send("/console/projects", "create", name=_HOSTILE, project_id="hostile")
        await browser.send("/console/projects/hostile", "add-type", name=_HOSTILE, type_id="bad")
        yield server


async def _fill(server: RunningServer) -> "asyncio.Task[Any]":
    """Something on each page; returns a client that waits for approval."""
    browser, rpc = await ConsoleClient(server).sign_in(), RpcClient(server)
    await browser.send("/console/faults", "add", where="webhook", status="503")
    await browser.send("/console/projects", "create", name="Shop", project_id="shop")
    await browser.send(_SHOP, "set-webhook", url="https://app.example/hook")
    await browser.send(_SHOP, "subscribe", account=_ACCOUNT)
    push = PushClient(server)
    await push.register(topic="a-topic-of-the-browser", type="fcm", peerName="Shop", language="de")
    await push.push("a-topic-of-the-browser")
    await rpc.call("personal_newAccount", "a passphrase")
    sent = {"from": DEVELOPMENT_ADDRESS, "to": "0x" + "12" * 20, "value": "0x1"}
    await rpc.call("eth_sendTransaction", sent)
    message = "0x" + "<img src=x onerror=alert(1)>\u202e".encode().hex()
    asking = rpc.request("personal_sign", message, DEVELOPMENT_ADDRESS)
    waits = asyncio.create_task(_wait_for_approval(server, asking))

    async def all_there() -> bool:
        pages = [await browser.page(f"/console/{name}") for name in ("wallet", "webhooks?state=waiting")]
        return ">waits<" in pages[0] and "app.example" in pages[1]

    await eventually(all_there)
    return waits


async def _wait_for_approval(server: RunningServer, asking: Any) -> None:
    """A client that gives up no sooner than the specifications of other servers have ended."""
    patient = aiohttp.ClientTimeout(total=None)
    async with server.client.post(f"{server.url}/rpc", json=asking, timeout=patient) as response:
        await response.read()


@asynccontextmanager
async def what_goes_out(data_dir: Path) -> AsyncIterator[RunningServer]:
    topic = topic_of("a topic of the browser")
    async with (
        running_server(data_dir, **_SETTINGS) as server,
        irn_connected(server.client, server.url, Identity()) as dapp,
    ):
        waits = await _fill(server)
        await dapp.subscribe(topic)
        await dapp.publish(topic, tag=1100)

        try:
            yield server
        finally:
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)


@asynccontextmanager
async def notifications(data_dir: Path) -> AsyncIterator[RunningServer]:
    async with running_server(data_dir, console=True, test=True) as server:
        browser = await ConsoleClient(server).sign_in()
        await make_project(browser, "shop", "news", "deals", name="Shop")
        await subscribe(browser, "shop", _READER)
        subscribe_crowd(browser, 8_000, _READER, "shop")
        for number in range(4):
            await _send(browser, "shop", _READER, title=f"Number {number}.", body="Body")
        await make_project(browser, "hostile", "news", name=_HOSTILE)
        await subscribe(browser, "hostile", "test:chain:hostile")
        await _send(browser, "hostile", "test:chain:hostile", title=_HOSTILE, body=_HOSTILE)
        yield server


async def _send(browser: ConsoleClient, project_id: str, account: str, title: str, body: str) -> None:
    answer = await browser.send(
        f"/console/compose?project_id={project_id}",
        "send",
        type="news",
        title=title,
        body=body,
        accounts=account,
        notification_id=title,
    )
    assert answer.status == 303, answer.body.decode()


@asynccontextmanager
async def traffic(data_dir: Path) -> AsyncIterator[RunningServer]:
    settings: dict[str, Any] = {"console": True, "test": True, "dev_accounts": True, "max_wait": 120}
    async with running_server(data_dir, **settings) as server:
        yield server


def payloads() -> dict[str, str]:
    """Files with payloads of the published clients, and with some of our own."""
    cipher = Cipher(_KEY)
    sealed = {
        "key": _KEY.hex(),
        "call": cipher.seal(_CALL),
        "hostile": cipher.seal({"method": _HOSTILE_METHOD}),
    }
    return {
        **{path.name: path.read_text("utf-8") for path in _VECTORS.glob("clients_v*.json")},
        "sealed.json": orjson.dumps(sealed).decode(),
    }
