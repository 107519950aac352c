"""A dapp of one generation and a wallet of the other meet in one session."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.relay.v07 import V07_PATH, as_v07
from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.figures import until_delivered
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver

_PAYLOAD = {"data": "ab12", "hmac": "cd34", "iv": "ef56"}


@pytest.fixture(params=[("plain", "0.7"), ("0.7", "plain")], ids=["plain dapp", "0.7 dapp"])
def pair(bridge: BridgeClient, request: pytest.FixtureRequest) -> tuple[BridgeClient, BridgeClient]:
    """A dapp and a wallet."""
    clients = {"plain": bridge, "0.7": as_v07(bridge)}
    dapp, wallet = request.param
    return clients[dapp], clients[wallet]


def inside(client: BridgeClient, document: Any) -> Any:
    """What the client finds in an answer."""
    return document["data"] if client.path else document


async def test_clients_of_both_generations_pair_call_and_answer(
    pair: tuple[BridgeClient, BridgeClient], receiver: WebhookReceiver
) -> None:
    dapp, wallet = pair
    session_id = (await dapp.send("POST", "/session/new", {})).json["sessionId"]
    push = {"type": "fcm", "token": "token", "webhook": receiver.url("/push")}

    await wallet.update(session_id, _PAYLOAD, push=push)
    approval = inside(dapp, (await dapp.session(session_id)).json)
    call_id = await dapp.request_call(session_id, {**_PAYLOAD, "data": "call"})
    pending = inside(wallet, (await wallet.calls(session_id)).json)
    call = inside(wallet, (await wallet.call(session_id, call_id)).json)
    await wallet.answer(call_id, {**_PAYLOAD, "data": "status"})
    status = inside(dapp, (await dapp.status(call_id)).json)
    await until_delivered(dapp.server)

    assert approval["encryptionPayload"] == _PAYLOAD
    assert pending == {call_id: {"encryptionPayload": {**_PAYLOAD, "data": "call"}}}
    assert call["encryptionPayload"] == {**_PAYLOAD, "data": "call"}
    assert status["encryptionPayload"] == {**_PAYLOAD, "data": "status"}
    assert inside(wallet, (await wallet.calls(session_id)).json) == {}
    assert [orjson.loads(request.body) for request in receiver.requests] == [
        {
            "sessionId": session_id,
            "callId": call_id,
            "pushType": "fcm",
            "pushToken": "token",
            "dappName": "Dapp",
        }
    ]


async def test_a_rejection_takes_the_push_details_away(
    pair: tuple[BridgeClient, BridgeClient], receiver: WebhookReceiver
) -> None:
    dapp, wallet = pair
    session_id = await dapp.open_session()
    push = {"type": "fcm", "token": "token", "webhook": receiver.url("/push")}
    await wallet.update(session_id, _PAYLOAD, push=push)

    await wallet.update(session_id, {**_PAYLOAD, "data": "rejected"}, push=None)
    rejection = inside(dapp, (await dapp.session(session_id)).json)
    await dapp.request_call(session_id)
    await until_delivered(dapp.server)

    assert rejection["encryptionPayload"]["data"] == "rejected"
    assert receiver.requests == []


async def test_a_session_that_the_wallet_ends_is_ended_for_the_dapp(
    pair: tuple[BridgeClient, BridgeClient],
) -> None:
    dapp, wallet = pair
    session_id = await dapp.open_session()
    call_id = await dapp.request_call(session_id)

    assert (await wallet.end(session_id)).json == {"success": True}

    (await dapp.status(call_id)).problem(404)
    (await dapp.post_call(session_id)).problem(404)
    (await wallet.calls(session_id)).problem(404)


async def test_new_sessions_of_both_generations_count_towards_one_quota(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=(), sessions_burst=1, sessions_per_minute=1) as server:
        paths = ["/session/new", f"{V07_PATH}/session/new"]

        answers = [await ask(server, "POST", path) for path in paths]

        assert [answer.status for answer in answers] == [200, 429]
