"""A hundred sessions at once in one wallet process."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from bridge_server.kit.client import Dapp
from tests.headless.commands import wallet_process
from tests.headless.dapps import FIRST, GENERATIONS, HELLO, dapp_at, relay_at
from tests.support.slow import slow

SESSIONS = 100
MOST_MIB = 150


@slow
async def test_a_hundred_sessions_at_once_need_less_than_150_mib(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(
            relay_at(tmp_path / "data", sessions_per_minute=SESSIONS * 10)
        )
        wallet = stack.enter_context(wallet_process(tmp_path, "--relay-url", relay.url, "--quiet"))
        http = await stack.enter_async_context(
            aiohttp.ClientSession(wallet.facts["url"], headers=wallet.headers)
        )
        dapps = [
            await stack.enter_async_context(dapp_at(relay.url, GENERATIONS[number % len(GENERATIONS)]))
            for number in range(SESSIONS)
        ]
        await asyncio.gather(*(_pair(http, dapp) for dapp in dapps))
        signatures = await asyncio.gather(*(dapp.call("personal_sign", [HELLO, FIRST]) for dapp in dapps))
        async with http.get("/sessions") as response:
            sessions = (await response.json())["sessions"]
        used_mib = wallet.resident_mib()

    assert len(set(signatures)) == 1
    assert [session["state"] for session in sessions] == ["approved"] * SESSIONS
    record_property("resident_mib", round(used_mib))
    assert used_mib < MOST_MIB


async def _pair(http: aiohttp.ClientSession, dapp: Dapp) -> None:
    async with http.post("/pair", json={"uri": dapp.uri}) as response:
        assert response.status == 200, await response.text()
