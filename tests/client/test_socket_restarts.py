"""Sessions over a WebSocket whose server or whose wallet goes away and comes back."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest
from yarl import URL

from bridge_server.kit.client import Generation, Wallet
from tests.client.pairs import ACCOUNT, BRISK, echoing, next_call
from tests.client.socket_pairs import dapp_at, paired_over, wallet_for
from tests.client.tcp_gate import tcp_gate
from tests.support.server import RunningServer, server_process


@pytest.fixture(params=["1.x", "2.x"])
def generation(request: pytest.FixtureRequest) -> Generation:
    """Each generation over a WebSocket."""
    chosen: Generation = request.param
    return chosen


async def test_a_session_goes_on_after_the_server_was_killed_and_started_again(
    tmp_path: Path, generation: Generation
) -> None:
    with server_process(tmp_path / "data") as first:
        pair = paired_over(first.url, generation)
        dapp, wallet = await pair.__aenter__()
        pending = await dapp.request("eth_sign", [1])
        call = await next_call(wallet)
        result = asyncio.create_task(dapp.result(pending))
        first.kill()
    answered = asyncio.create_task(wallet.answer(call, "signed"))

    with server_process(tmp_path / "data", "--port", str(URL(first.url).port)):
        await answered
        assert await result == "signed"
        async with echoing(wallet):
            assert await dapp.call("eth_sign", [2]) == ["eth_sign", [2]]
        await wallet.approve([ACCOUNT], chain_id=100)
        assert (await anext(dapp.updates())).chain_id == 100
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


async def test_a_dapp_and_a_wallet_may_be_there_before_their_server(
    tmp_path: Path, generation: Generation
) -> None:
    with server_process(tmp_path / "data") as first:
        url = first.url

    dapp = dapp_at(url, generation)
    entered = asyncio.create_task(dapp.__aenter__())
    await asyncio.sleep(0)
    async with wallet_for(dapp, url) as wallet:
        approved = asyncio.create_task(wallet.approve([ACCOUNT]))
        with server_process(tmp_path / "data", "--port", str(URL(url).port)):
            await entered
            await approved
            assert (await dapp.approval()).accounts == (ACCOUNT,)
            await dapp.__aexit__(None, None, None)


async def test_messages_that_wait_while_a_wallet_is_away_come_when_it_is_back(
    relay: RunningServer, generation: Generation
) -> None:
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
