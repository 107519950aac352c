"""A bridge that goes away and comes back while a dapp and a wallet wait."""

import asyncio
from pathlib import Path

import pytest
from yarl import URL

from bridge_server.kit.client import Dapp, Wallet
from tests.client.pairs import ACCOUNT, BRISK, echoing, next_call, paired
from tests.support.figures import METRICS_TOKEN, until_waiting
from tests.support.server import running_server


@pytest.mark.parametrize("path", ["", "/compat/v0.7"], ids=["plain", "v0.7"])
async def test_a_dapp_and_a_wallet_go_on_where_the_bridge_comes_back(tmp_path: Path, path: str) -> None:
    async with running_server(tmp_path, metrics_token=METRICS_TOKEN) as server:
        url, clock = server.url, server.clock
        pair = paired(url + path, pace=BRISK)
        dapp, wallet = await pair.__aenter__()
        asked = asyncio.create_task(next_call(wallet))
        await until_waiting(server, 1)
        call_id = await dapp.request("eth_accounts", [])
        call = await asked
        result = asyncio.create_task(dapp.result(call_id))
        more = asyncio.create_task(next_call(wallet))
        await until_waiting(server, 1)
    answered = asyncio.create_task(wallet.answer(call, [ACCOUNT]))
    later = asyncio.create_task(dapp.request("eth_chainId", []))

    async with running_server(tmp_path, clock, port=URL(url).port):
        await answered
        assert await result == [ACCOUNT]
        assert (await more).call_id == await later
        await pair.__aexit__(None, None, None)


async def test_a_dapp_may_be_there_before_its_bridge(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        url = server.url

    dapp = Dapp(url, name="Example Dapp", pace=BRISK)
    entered = asyncio.create_task(dapp.__aenter__())
    async with running_server(tmp_path, port=URL(url).port):
        await entered
        async with Wallet.from_uri(dapp.uri) as wallet, echoing(wallet):
            assert await dapp.call("eth_chainId", []) == ["eth_chainId", []]
        await dapp.__aexit__(None, None, None)
