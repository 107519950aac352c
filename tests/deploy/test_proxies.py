"""A server behind nginx and behind Caddy, with the configurations of deploy/: nothing is lost on the way.

A test that waits 25 seconds really waits: the proxies have their own clocks.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.deploy.programs import needs
from tests.deploy.proxies import Proxy, caddy, nginx
from tests.support.inbox_client import open_stream, sign_in
from tests.support.needs import slow
from tests.support.project import opened_app
from tests.support.server import RunningServer
from tests.support.socket_client import connected

pytestmark = [slow]

_PROXIES = {"nginx": nginx, "caddy": caddy}
_WAIT = 25
_BURST = 3


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """What the comment in each configuration says; and a limit that a test can reach."""
    return {
        "test": False,  # test mode is for this machine alone, and these come through a proxy
        "trusted_proxies": ["127.0.0.1"],
        "quota_exempt": [],
        "sessions_burst": _BURST,
        "sessions_per_minute": 0.001,
    }


@pytest.fixture(params=[pytest.param(name, marks=needs(name)) for name in _PROXIES])
async def proxy(
    request: pytest.FixtureRequest, tmp_path: Path, server: RunningServer
) -> AsyncIterator[Proxy]:
    async with _PROXIES[request.param](tmp_path, server.url) as proxy:
        yield proxy


async def test_everything_that_waits_for_25_seconds_stays_open(proxy: Proxy, server: RunningServer) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(proxy.client("127.0.0.21"))
        app = await stack.enter_async_context(opened_app(server))
        inbox = await sign_in(server)
        await inbox.subscribe(app.project_id)
        through = replace(inbox, server=replace(server, url=proxy.url, client=client))
        stream = await stack.enter_async_context(open_stream(through))
        wallet = await stack.enter_async_context(connected(client, proxy.url))
        dapp = await stack.enter_async_context(connected(client, proxy.url))
        await wallet.subscribe("a-topic")
        session = await _open_session(client, proxy)
        path = f"{proxy.url}/session/{session}"

        async with client.get(path, headers={"Prefer": f"wait={_WAIT}"}) as silent:
            assert silent.status == 204
        await dapp.publish("a-topic", "after the silence")
        assert (await wallet.message())["payload"] == "after the silence"
        await app.notify([inbox.account], title="after the silence")
        assert await stream.titles(1) == ["after the silence"]

        waiting = asyncio.create_task(_body(client, path, {"Prefer": f"wait={_WAIT}"}))
        async with client.put(path, json={"encryptionPayload": "approval"}) as approved:
            assert approved.status == 200
        assert await waiting == b'{"encryptionPayload":"approval"}'


async def test_limits_count_the_client_and_not_the_proxy_nor_what_a_client_says(
    proxy: Proxy, request: pytest.FixtureRequest
) -> None:
    number = list(_PROXIES).index(request.node.callspec.params["proxy"])
    greedy, other = f"127.0.1.{number}", f"127.0.2.{number}"
    forged = {"X-Forwarded-For": "192.0.2.7"}

    async with proxy.client(greedy) as client, proxy.client(other) as neighbour:
        asked = [await _status(client, proxy) for _ in range(_BURST + 1)]
        pretending = await _status(client, proxy, forged)
        beside = await _status(neighbour, proxy)

    assert asked == [200] * _BURST + [429]
    assert (pretending, beside) == (429, 200)


async def test_plain_http_leads_to_tls(proxy: Proxy) -> None:
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{proxy.plain_url}/hello", allow_redirects=False) as answer,
    ):
        assert answer.status == 308
        assert answer.headers["Location"].startswith("https://")


async def test_the_largest_body_of_the_bridge_passes(proxy: Proxy) -> None:
    async with proxy.client("127.0.0.22") as client:
        session = await _open_session(client, proxy)
        payload = "a" * 250_000
        async with client.put(f"{proxy.url}/session/{session}", json={"encryptionPayload": payload}) as taken:
            assert taken.status == 200
        assert len(await _body(client, f"{proxy.url}/session/{session}")) > len(payload)


async def _open_session(client: aiohttp.ClientSession, proxy: Proxy) -> str:
    async with client.post(f"{proxy.url}/session/new") as answer:
        assert answer.status == 200, await answer.text()
        session_id: str = (await answer.json())["sessionId"]
        return session_id


async def _status(client: aiohttp.ClientSession, proxy: Proxy, headers: dict[str, str] | None = None) -> int:
    async with client.post(f"{proxy.url}/session/new", headers=headers) as answer:
        return answer.status


async def _body(client: aiohttp.ClientSession, url: str, headers: dict[str, str] | None = None) -> bytes:
    async with client.get(url, headers=headers) as answer:
        assert answer.status == 200
        return await answer.read()
