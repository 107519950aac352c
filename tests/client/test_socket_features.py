"""The parts of a session over a WebSocket that only one generation has, and the webhooks of its topic."""

from contextlib import aclosing

import orjson
import pytest

from bridge_server.kit.client import CallFailedError, Generation, SessionEndedError, UnsupportedError, Wallet
from tests.client.pairs import echoing, next_call, paired
from tests.client.socket_pairs import dapp_at, paired_over, wallet_for
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.webhook_receiver import open_receiver


@each_row("generation", ["plain", "1.x", "2.x"])
async def test_a_webhook_that_is_registered_for_the_topic_is_called_for_a_new_call(
    relay: RunningServer, generation: Generation
) -> None:
    pair = paired(relay.url) if generation == "plain" else paired_over(relay.url, generation)
    async with open_receiver() as receiver, pair as (dapp, wallet):
        body = {"topic": wallet.topic, "webhook": receiver.url()}
        async with relay.client.post(f"{relay.url}/subscribe", json=body) as response:
            assert response.status == 200
        await dapp.request("personal_sign", [])
        await next_call(wallet)
        await receiver.got(1)

        assert orjson.loads(receiver.requests[0].body) == {"topic": wallet.topic}


async def test_a_session_of_2_x_has_no_topic_before_its_approval(relay: RunningServer) -> None:
    async with dapp_at(relay.url, "2.x") as dapp, wallet_for(dapp, relay.url) as wallet:
        with pytest.raises(SessionEndedError, match="no session yet"):
            assert wallet.topic


async def test_over_http_there_are_no_pings_events_updates_and_extensions(relay: RunningServer) -> None:
    async with paired(relay.url) as (dapp, wallet):
        for use in (dapp.ping(), wallet.ping(), wallet.emit("e", 1, "eip155:1"), wallet.extend()):
            with pytest.raises(UnsupportedError):
                await use
        for each in (dapp.events, dapp.updates):
            with pytest.raises(UnsupportedError):
                each()
        with pytest.raises(UnsupportedError, match="one chain"):
            await dapp.request("eth_sign", [], chain="eip155:1")
        assert (await Wallet.from_uri(dapp.uri).proposal()).name == "Example Dapp"


async def test_1_x_has_neither_ping_nor_events_nor_an_end_to_extend(relay: RunningServer) -> None:
    async with paired_over(relay.url, "1.x") as (dapp, wallet):
        for use in (dapp.ping(), wallet.ping(), wallet.emit("e", 1, "eip155:1"), wallet.extend()):
            with pytest.raises(UnsupportedError):
                await use
        with pytest.raises(UnsupportedError):
            dapp.events()
        with pytest.raises(UnsupportedError, match="one chain"):
            await dapp.request("eth_sign", [], chain="eip155:1")


async def test_2_x_pings_tells_of_events_and_extends_a_session(relay: RunningServer) -> None:
    async with paired_over(relay.url, "2.x") as (dapp, wallet):
        await dapp.ping()
        await wallet.ping()
        await wallet.emit("chainChanged", "0x64", "eip155:1")
        expires_ms = await wallet.extend()

        async with aclosing(dapp.events()) as events:
            event = await anext(events)
        assert (event.name, event.data, event.chain) == ("chainChanged", "0x64", "eip155:1")
        assert isinstance(expires_ms, int)
        await dapp.ping()


async def test_a_wallet_of_2_x_refuses_what_it_did_not_approve(relay: RunningServer) -> None:
    async with paired_over(relay.url, "2.x") as (dapp, wallet), echoing(wallet):
        for method, chain in (("eth_sendTransaction", "eip155:1"), ("eth_sign", "eip155:5")):
            with pytest.raises(CallFailedError, match="Unauthorized method") as refusal:
                await dapp.call(method, [], chain=chain)
            assert refusal.value.code == 3001
        assert await dapp.call("eth_sign", [], chain="eip155:1") == ["eth_sign", []]
