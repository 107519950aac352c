"""Unmodified published clients, in Node.js and in Chromium, are answered by every rule."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from bridge_server.kit.headless import HeadlessWallet
from tests.headless.dapps import BRISK, FIRST, HELLO, SECOND, WalletProcess, wallet_process
from tests.support.needs import CHROMIUM, PACKAGES, needs_chromium, needs_node, node_peers, slow
from tests.support.server import RunningServer

PATIENCE_SECONDS = 240
PUBLISHED = ("0.7", "1.x", "2.x")
SIGNATURE = "0xf16e"
PAYMENT = {"from": FIRST, "to": SECOND, "value": "0x1"}
SIGN = ["personal_sign", [HELLO, FIRST]]
BUNDLES = {
    "1.x": "@walletconnect/client/dist/umd/index.min.js",
    "2.x": "@walletconnect/sign-client/dist/index.umd.js",
}
RULES = [
    'eth_sign=reject:4001:"not today"*1',
    'eth_sign=error:-32000:"out of order"*1',
    'eth_sign=answer:"0xfeed"*1',
    "eth_sign=delay:10ms*1",
    "eth_sign=approve*1",
    "eth_sign=ask*1",
    "eth_sendTransaction=hang",
]


async def _played(
    relay: RunningServer, wallet: WalletProcess, generation: str, calls: list[Any], hanging: Any = None
) -> dict[str, Any]:
    """The facts that the dapp of a generation reports."""
    orders = {"generation": generation, "bridge": relay.url, "calls": calls, "hanging": hanging}
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        node_peers("headless_dapps.js", **orders) as printed,
        aiohttp.ClientSession(wallet.facts["url"], headers=wallet.headers) as http,
    ):
        body = orjson.loads(await printed.readline())
        async with http.post("/pair", json={**body, "relay_url": relay.url}) as response:
            assert response.status == 200, await response.text()
        decisions = asyncio.create_task(_decide_what_waits(http))
        facts: dict[str, Any] = orjson.loads(await printed.readline())
        decisions.cancel()
    return facts


async def _decide_what_waits(http: aiohttp.ClientSession) -> None:
    """Approve the first call that waits, reject the second, answer every other."""
    for verb, body in (("approve", {}), ("reject", {}), *[("answer", {"result": "0x0a"})] * 10):
        calls: list[dict[str, Any]] = []
        while not calls:
            async with http.get("/calls?state=pending&wait=30") as response:
                calls = (await response.json())["calls"]
        async with http.post(f"/calls/{calls[0]['id']}/{verb}", json=body) as response:
            assert response.status == 200


@needs_node
@pytest.mark.parametrize("generation", PUBLISHED)
async def test_a_published_client_has_a_message_signed_and_a_transaction_rejected(
    relay: RunningServer, tmp_path: Path, generation: str
) -> None:
    with wallet_process(tmp_path, "--on", "eth_sendTransaction=reject") as wallet:
        facts = await _played(relay, wallet, generation, [SIGN, ["eth_sendTransaction", [PAYMENT]]])

    signed, rejected = facts["outcomes"]
    assert facts["accounts"] == [FIRST]
    assert signed["result"].startswith(SIGNATURE)
    assert "error" in rejected


@needs_node
@slow
@pytest.mark.parametrize("generation", PUBLISHED)
async def test_a_published_client_is_answered_by_every_rule(
    relay: RunningServer, tmp_path: Path, generation: str
) -> None:
    rules = (
        'eth_sign=reject:4001:"not today"*1', 'eth_sign=error:-32000:"out of order"*1',
        'eth_sign=answer:"0xfeed"*1', "eth_sign=delay:50ms*1", "eth_sign=approve*1", "eth_sign=ask*3",
        "eth_sendTransaction=hang",
    )  # fmt: skip
    eth_sign = ["eth_sign", [FIRST, HELLO]]
    flags = [text for rule in rules for text in ("--on", rule)]
    with wallet_process(tmp_path, *flags) as wallet:
        facts = await _played(
            relay, wallet, generation, [eth_sign] * 7 + [SIGN], ["eth_sendTransaction", [PAYMENT]]
        )

    rejected, failed, answered, approved, asked, refused, given, signed = facts["outcomes"]
    assert (rejected["error"][1], failed["error"][1]) == ("not today", "out of order")
    assert [answered, given] == [{"result": "0xfeed"}, {"result": "0x0a"}]
    assert {each["result"][:6] for each in (approved, asked, signed)} == {SIGNATURE}
    assert "error" in refused
    assert facts["answered"] is False


class PageServer:
    """Serves the page and its client, and takes what the page tells."""

    def __init__(self, generation: str, bridge: str) -> None:
        loop = asyncio.get_running_loop()
        self.uri: asyncio.Future[str] = loop.create_future()
        self.has_answered = False
        """Whether the call that hangs was answered."""
        self.facts: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._bundle = PACKAGES / "node_modules" / BUNDLES[generation]
        self._orders = {
            "generation": generation,
            "bridge": bridge,
            "calls": [["eth_sign", [FIRST, HELLO]]] * 6,
            "hanging": ["eth_sendTransaction", [{"from": FIRST, "to": SECOND}]],
        }

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """The page's URL."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/", self._page),
                web.get("/client.js", self._client),
                web.get("/orders", self._give_orders),
                web.post("/uri", self._take_uri),
                web.post("/outcomes", self._take_outcomes),
                web.post("/answered", self._take_answer),
            ]
        )
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
        finally:
            await runner.cleanup()

    async def _page(self, _: web.Request) -> web.FileResponse:
        return web.FileResponse(Path(__file__).parent / "page_dapps.html")

    async def _client(self, _: web.Request) -> web.FileResponse:
        return web.FileResponse(self._bundle)

    async def _give_orders(self, _: web.Request) -> web.Response:
        return web.json_response(self._orders)

    async def _take_uri(self, request: web.Request) -> web.Response:
        self.uri.set_result((await request.json())["uri"])
        return web.Response()

    async def _take_answer(self, _: web.Request) -> web.Response:
        self.has_answered = True
        return web.Response()

    async def _take_outcomes(self, request: web.Request) -> web.Response:
        self.facts.set_result(await request.json())
        return web.Response()


@asynccontextmanager
async def open_page(url: str, profile: Path) -> AsyncIterator[None]:
    """The page in a browser of its own."""
    flags = (
        *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"),
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # a client asks for services elsewhere
    )
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *flags, f"--user-data-dir={profile}", url,
        stdout=DEVNULL, stderr=DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # Debian's program is a script that starts the browser
        await process.wait()


@needs_node
@needs_chromium
@slow
@pytest.mark.parametrize("generation", BUNDLES)
async def test_a_page_in_chromium_is_answered_by_every_rule(
    relay: RunningServer, tmp_path: Path, generation: str
) -> None:
    page = PageServer(generation, relay.url)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        HeadlessWallet(rules=RULES, relay_url=relay.url, pace=BRISK) as wallet,
        page.listening() as url,
        open_page(url, tmp_path / "profile"),
    ):
        session = await wallet.pair(await page.uri)
        asked = asyncio.create_task(wallet.next_call("eth_sign", timeout=PATIENCE_SECONDS))
        await (await asked).answer("0x0a")
        facts = await page.facts
        hanging = await wallet.call_log.wait_for("hanging", "eth_sendTransaction", PATIENCE_SECONDS)

    rejected, failed, answered, approved, given, again = facts["outcomes"]
    assert (rejected, failed) == ({"error": "not today"}, {"error": "out of order"})
    assert (answered, given) == ({"result": "0xfeed"}, {"result": "0x0a"})
    assert approved == again
    assert approved["result"].startswith("0xf16e")
    assert session.dapp.url.startswith(url.rstrip("/"))
    assert [call.method for call in hanging] == ["eth_sendTransaction"]
    assert not page.has_answered
