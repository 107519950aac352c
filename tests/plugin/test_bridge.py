"""The fixture `bridge`, as plain functions and asyncio use it."""

import asyncio
from datetime import UTC, datetime

import pytest

from bridge_server.kit.client import Approval, Dapp, RequestRefusedError, SessionEndedError, Wallet
from bridge_server.kit.client.dapp_and_wallet import Generation
from bridge_server.kit.fixtures import Bridge, NothingSentError
from tests.support.rows import each_row

ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


async def approve(uri: str) -> None:
    """Be the wallet that approves a session and signs what it is asked for."""
    async with Wallet.from_uri(uri) as wallet:
        await wallet.proposal(10)
        await wallet.approve([ADDRESS], chain_id=1)
        async for call in wallet.calls():
            await wallet.answer(call, f"signed {call.params[0]}")
            return


def test_the_bridge_answers_with_accounts(bridge: Bridge) -> None:
    assert bridge.http.send("GET", "/info")["name"]
    assert len(bridge.accounts) == 10
    assert bridge.v07_url == f"{bridge.url}/compat/v0.7"


def test_a_session_ends_when_its_time_is_over(bridge: Bridge) -> None:
    dapp = bridge.dapp("Example")

    bridge.clock.advance(hours=25)

    with pytest.raises(SessionEndedError):
        dapp.request("personal_sign", ["0x68", ADDRESS])


@pytest.mark.bridge(session_ttl=5)
def test_a_marker_has_settings(bridge: Bridge) -> None:
    dapp = bridge.dapp("Example")

    bridge.clock.advance(seconds=6)

    with pytest.raises(SessionEndedError):
        dapp.request("personal_sign", ["0x68", ADDRESS])


@pytest.mark.bridge(session_ttl=5)
class TestNearestMarker:
    """Settings of a class, and of a test in it."""

    @pytest.mark.bridge(session_ttl=500)
    def test_the_nearest_marker_wins(self, bridge: Bridge) -> None:
        dapp = bridge.dapp("Example")

        bridge.clock.advance(seconds=6)

        assert dapp.request("personal_sign", ["0x68", ADDRESS])


@each_row("generation", ["plain", "0.7"])
async def test_async_tests_have_a_dapp_of_their_own(bridge: Bridge, generation: Generation) -> None:
    async with bridge.adapp("Example", generation=generation) as dapp:
        wallet = asyncio.create_task(approve(dapp.uri))

        approval = await dapp.approval()
        signature = await dapp.call("personal_sign", ["0x68", ADDRESS])
        await wallet

    assert (approval.accounts, dapp.accounts, dapp.chain_id) == ((ADDRESS,), (ADDRESS,), 1)
    assert signature == "signed 0x68"


async def test_the_client_of_the_tests_own_loop_works_as_well(bridge: Bridge) -> None:
    async with Dapp(bridge.url, name="Example") as dapp:
        wallet = asyncio.create_task(approve(dapp.uri))
        approval: Approval = await dapp.approval(10)
        wallet.cancel()

    assert approval.accounts == (ADDRESS,)


def test_accounts_of_a_dapp_are_known_after_the_approval(bridge: Bridge) -> None:
    dapp = bridge.dapp("Example")

    with pytest.raises(RuntimeError, match=r"call approval\(\) first"):
        _ = dapp.accounts


def test_an_order_for_a_fault_makes_requests_fail(bridge: Bridge) -> None:
    bridge.faults.request(403, route="open-session", times=1)

    with pytest.raises(RequestRefusedError):
        bridge.dapp("Example")

    assert bridge.dapp("Example").uri
    assert [rule["hits"] for rule in bridge.faults.list()] == [1]


def test_another_fault_does_not_revive_a_fault_that_is_over(bridge: Bridge) -> None:
    bridge.faults.request(403, route="open-session", times=1)
    with pytest.raises(RequestRefusedError):
        bridge.dapp("Example")

    bridge.faults.disk("full", after=100)

    assert bridge.dapp("Example").uri
    assert [rule["where"] for rule in bridge.faults.list()] == ["disk"]


def test_the_clock_can_be_set(bridge: Bridge) -> None:
    then = datetime(2030, 1, 15, 8, tzinfo=UTC)

    bridge.clock.set(then, frozen=True)

    assert bridge.clock.now() == then


def test_a_missing_message_is_reported_with_the_messages_that_were_sent(bridge: Bridge) -> None:
    with pytest.raises(NothingSentError, match="no further fcm message was delivered within 0 s"):
        bridge.sent.fcm()


def test_traffic_shows_the_requests(bridge: Bridge) -> None:
    bridge.dapp("Example")

    assert [(each.method, each.path, each.status) for each in bridge.traffic() if each.who != "test"] == [
        ("POST", "/session/new", 200)
    ]


def test_a_reset_empties_the_server(bridge: Bridge) -> None:
    dapp = bridge.dapp("Example")

    bridge.reset()

    with pytest.raises(SessionEndedError):
        dapp.request("personal_sign", ["0x68", ADDRESS])


@pytest.mark.bridge(approve="queue")
def test_a_call_wakes_a_wallet_that_sleeps(bridge: Bridge) -> None:
    dapp = bridge.dapp("Example Dapp")
    topic = dapp.uri.partition("wc-")[2].partition("@")[0]
    fields = {"type": "fcm", "token": "a-token", "peerName": "Example Dapp", "language": "en"}
    bridge.http.send("POST", "/new", {"bridge": bridge.url, "topic": topic, **fields})
    bridge.faults.fcm("UNAVAILABLE", times=1)

    dapp.request("personal_sign", ["0x68", ADDRESS])
    bridge.clock.advance(minutes=1)

    assert bridge.sent.fcm(wait=5, topic=topic).title == "Example Dapp"
