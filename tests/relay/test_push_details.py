"""The wallet's push details: kept when absent, removed by null, replaced by an object."""

from typing import Any

import orjson
import pytest

from tests.support.bridge_client import BridgeClient
from tests.support.figures import until_delivered
from tests.support.problems import pointers
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver

_PUSH = {"type": "fcm", "token": "token", "webhook": "https://example.org/push"}


def push_to(receiver: WebhookReceiver, path: str, **more: Any) -> dict[str, Any]:
    return {"type": "fcm", "token": "token", "webhook": receiver.url(path), **more}


async def notified(bridge: BridgeClient, receiver: WebhookReceiver, session_id: str) -> list[str]:
    """The paths that one new call is told at."""
    receiver.requests.clear()
    await bridge.request_call(session_id)
    await until_delivered(bridge.server)
    return sorted(request.path for request in receiver.requests)


async def test_a_new_call_is_sent_to_the_wallets_webhook(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    push = {"type": "APNS 😀", "token": "tök\u0000en", "webhook": receiver.url("/push?key=1")}
    await bridge.update(session_id, push=push)

    call_id = await bridge.request_call(session_id, dapp_name="Dapp é")
    await until_delivered(bridge.server)

    (request,) = receiver.requests
    assert request.path == "/push?key=1"
    assert request.headers["Content-Type"] == "application/json"
    assert orjson.loads(request.body) == {
        "sessionId": session_id,
        "callId": call_id,
        "pushType": "APNS 😀",
        "pushToken": "tök\u0000en",
        "dappName": "Dapp é",
    }


async def test_a_session_without_push_details_causes_no_webhook(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    assert await notified(bridge, receiver, session_id) == []

    await bridge.update(session_id)

    assert await notified(bridge, receiver, session_id) == []


async def test_push_details_are_kept_when_absent_removed_by_null_and_replaced_by_an_object(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    told = []

    await bridge.update(session_id, push=push_to(receiver, "/first"))
    told.append(await notified(bridge, receiver, session_id))
    await bridge.update(session_id)
    told.append(await notified(bridge, receiver, session_id))
    await bridge.update(session_id, push=push_to(receiver, "/second"))
    told.append(await notified(bridge, receiver, session_id))
    await bridge.update(session_id, push=None)
    told.append(await notified(bridge, receiver, session_id))
    await bridge.update(session_id)
    told.append(await notified(bridge, receiver, session_id))

    assert told == [["/first"], ["/first"], ["/second"], [], []]


async def test_push_details_are_replaced_as_a_whole(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    await bridge.update(session_id, push=push_to(receiver, "/first", type="fcm", token="old"))
    await bridge.update(session_id, push=push_to(receiver, "/second", type="", token=""))

    await notified(bridge, receiver, session_id)

    notice = orjson.loads(receiver.requests[0].body)
    assert (notice["pushType"], notice["pushToken"]) == ("", "")


async def test_unknown_fields_are_ignored(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    push = push_to(receiver, "/push", peerName="Wallet", language=["en"])

    answer = await bridge.update(session_id, push=push, approved=True)

    assert answer.status == 200
    assert await notified(bridge, receiver, session_id) == ["/push"]


@each_row("name", ["type", "token", "webhook"])
@each_row("value", ["absent", None, 1, True, ["text"], {"a": 1}])
async def test_each_push_detail_is_a_required_string(
    bridge: BridgeClient, session_id: str, name: str, value: Any
) -> None:
    push = {field: text for field, text in _PUSH.items() if field != name or value != "absent"}
    if value != "absent":
        push[name] = value

    problem = (await bridge.update(session_id, push=push)).problem(400)

    assert pointers(problem) == [f"#/push/{name}"]
    assert (await bridge.session(session_id)).status == 204


@pytest.mark.parametrize(("name", "most"), [("type", 64), ("token", 4096), ("webhook", 2048)])
async def test_push_details_are_no_longer_than_they_may_be(
    bridge: BridgeClient, session_id: str, name: str, most: int
) -> None:
    longest = _PUSH[name] + "x" * (most - len(_PUSH[name]))

    problem = (await bridge.update(session_id, push={**_PUSH, name: longest + "x"})).problem(400)

    assert pointers(problem) == [f"#/push/{name}"]
    assert str(most) in problem["errors"][0]["detail"]
    assert (await bridge.session(session_id)).status == 204
    assert (await bridge.update(session_id, push={**_PUSH, name: longest})).status == 200


@each_row("push", [1, "push", True, [], [_PUSH]])
async def test_push_details_are_an_object(bridge: BridgeClient, session_id: str, push: Any) -> None:
    problem = (await bridge.update(session_id, push=push)).problem(400)

    assert pointers(problem) == ["#/push"]


async def test_every_fault_of_an_update_is_reported_at_once(bridge: BridgeClient, session_id: str) -> None:
    push = {"type": 1, "webhook": "ftp://example.org"}

    problem = (await bridge.update(session_id, None, push=push)).problem(400)

    assert pointers(problem) == ["#/encryptionPayload", "#/push/type", "#/push/token", "#/push/webhook"]


async def test_a_refused_update_changes_neither_payload_nor_push_nor_expiry(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    await bridge.update(session_id, "kept", push=push_to(receiver, "/kept"))
    bridge.clock.advance(1800)

    (await bridge.update(session_id, "lost", push={"type": "fcm"})).problem(400)
    (await bridge.update(session_id, None, push=None)).problem(400)

    assert (await bridge.session(session_id)).json == {"encryptionPayload": "kept"}
    assert await notified(bridge, receiver, session_id) == ["/kept"]
