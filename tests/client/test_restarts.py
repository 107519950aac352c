"""Servers that are killed and come back, and wallets that do, within a session of any generation."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest
from yarl import URL

from bridge_server.kit.client import Generation, Wallet
from tests.client import pairs
from tests.client.gate import tcp_gate
from tests.client.pairs import ACCOUNT, BRISK, GENERATIONS, dapp_at, echoing, next_call, paired_over
from tests.support.server import RunningServer, server_process


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_session_outlives_a_kill_of_the_server(tmp_path: Path, generation: Generation) -> None:
    with server_process(tmp_path / "data") as first:
        pair = paired_over(first.url, generation)
        dapp, wallet = await pair.__aenter__()
        pending = await dapp.request("eth_sign", [1])
        call = await next_call(wallet)
        result = asyncio.create_task(dapp.result(pending))
        more = asyncio.create_task(next_call(wallet))
        first.kill()
    answered = asyncio.create_task(wallet.answer(call, "signed"))
    with server_process(tmp_path / "data", "--port", str(URL(first.url).port)):
        await answered
        assert await result == "signed"
        later = await dapp.request("eth_sign", [2])
        assert (await more).call_id == later
        await wallet.answer(more.result(), "signed again")
        assert await dapp.result(later) == "signed again"
        await dapp.end()
        assert [call async for call in wallet.calls()] == []
        await pair.__aexit__(None, None, None)


async def test_calls_of_2_x_that_the_server_did_not_live_to_take_are_made_once(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as first:
        pair = paired_over(first.url, "2.x")
        dapp, wallet = await pair.__aenter__()
        calls = [asyncio.create_task(dapp.call("eth_sign", [number])) for number in range(20)]
        await next_call(wallet)
        first.kill()
    with server_process(tmp_path / "data", "--port", str(URL(first.url).port)):
        async with echoing(wallet):
            results = await asyncio.gather(*calls[1:])
        assert results == [["eth_sign", [number]] for number in range(1, 20)]
        calls[0].cancel()
        await pair.__aexit__(None, None, None)


async def test_dapps_and_wallets_may_be_there_before_their_server(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as first:
        url = first.url

    dapps = [dapp_at(url, generation) for generation in GENERATIONS]
    entered = [asyncio.create_task(dapp.__aenter__()) for dapp in dapps]
    await asyncio.sleep(0)
    wallets = [await pairs.wallet_for(dapp, url).__aenter__() for dapp in dapps[2:]]
    approved = [asyncio.create_task(wallet.approve([ACCOUNT])) for wallet in wallets]
    with server_process(tmp_path / "data", "--port", str(URL(url).port)):
        await asyncio.gather(*entered)
        for dapp in dapps[:2]:  # over HTTP the URI names a session, which the server gives out
            wallets.append(await pairs.wallet_for(dapp, url).__aenter__())
            await wallets[-1].approve([ACCOUNT])
        await asyncio.gather(*approved)
        for dapp in dapps:
            assert (await dapp.approval()).accounts == (ACCOUNT,)
        for wallet in wallets:
            await wallet.__aexit__(None, None, None)
        for dapp in dapps:
            await dapp.__aexit__(None, None, None)


@pytest.mark.parametrize("generation", pairs.OVER_SOCKETS)
async def test_messages_wait_while_a_wallet_is_away(relay: RunningServer, generation: Generation) -> None:
    async with tcp_gate(relay.url) as gate, dapp_at(relay.url, generation) as dapp:
        uri = dapp.uri.replace(quote(relay.url, safe=""), quote(gate.url, safe=""))
        async with Wallet.from_uri(uri, relay_url=gate.url, pace=BRISK) as wallet:
            await wallet.approve([ACCOUNT])
            await dapp.approval()
            gate.shut()
            asked = [await dapp.request("eth_sign", [number]) for number in range(5)]
            gate.reopen()
            async with echoing(wallet):
                results = [await dapp.result(call_id) for call_id in asked]
    assert results == [["eth_sign", [number]] for number in range(5)]
