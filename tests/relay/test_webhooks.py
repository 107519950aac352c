"""Webhooks: of a session's topic and of its wallet, which URLs they may have, and whose they are."""

from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.support.asking import METRICS_TOKEN, ask, pointers, until_delivered
from tests.support.bridge_client import BridgeClient
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, hang, status

_DAY = 86_400
_MS = 0.001
_HOOK = "https://example.org/hook"


def push_to(receiver: WebhookReceiver, path: str) -> dict[str, Any]:
    return {"type": "fcm", "token": "token", "webhook": receiver.url(path)}


async def notified(bridge: BridgeClient, receiver: WebhookReceiver, session_id: str) -> list[str]:
    """The paths that one new call is told at."""
    receiver.requests.clear()
    await bridge.request_call(session_id)
    await until_delivered(bridge.server)
    return sorted(request.path for request in receiver.requests)


async def test_a_call_is_sent_once_to_the_push_webhook_and_to_each_of_the_topics_16_webhooks(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    hooks = [receiver.url(f"/{number:02}") for number in range(17)]
    await bridge.update(session_id, push=push_to(receiver, "/push"))
    for hook in [*hooks[:16], hooks[0]]:
        assert (await bridge.subscribe(session_id, hook)).status == 200
    refused = await bridge.subscribe(session_id, hooks[16])
    assert refused.problem(409)["type"].endswith(":too-many-webhooks")
    assert (await bridge.subscribe("another topic", hooks[16])).status == 200

    for _ in range(2):
        assert await notified(bridge, receiver, session_id) == [*(f"/{n:02}" for n in range(16)), "/push"]
        bodies = {request.body for request in receiver.requests if request.path != "/push"}
        assert bodies == {f'{{"topic":"{session_id}"}}'.encode()}


async def test_a_webhook_that_answers_410_is_removed_from_that_session_alone(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    other_session = await bridge.open_session()
    await bridge.update(session_id, push=push_to(receiver, "/gone"))
    for path in ("/gone", "/stays"):
        await bridge.subscribe(other_session, receiver.url(path))
    receiver.script.append(status(410))

    assert await notified(bridge, receiver, session_id) == ["/gone"]
    assert await notified(bridge, receiver, other_session) == ["/gone", "/stays"]
    assert await notified(bridge, receiver, session_id) == []


async def test_a_subscription_holds_for_30_days_and_ends_with_its_session(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    settings: dict[str, Any] = {
        "metrics_token": METRICS_TOKEN, "allow_private_webhooks": True,
        "max_topic_webhooks": 2, "session_ttl": 90 * _DAY,
    }  # fmt: skip
    async with running_server(tmp_path, **settings) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        for path in ("/once", "/renewed"):
            await bridge.subscribe(session_id, receiver.url(path))

        server.clock.advance(30 * _DAY - _MS)
        assert await notified(bridge, receiver, session_id) == ["/once", "/renewed"]
        await bridge.subscribe(session_id, receiver.url("/renewed"))
        (await bridge.subscribe(session_id, receiver.url("/new"))).problem(409)
        server.clock.advance(_MS)
        assert await notified(bridge, receiver, session_id) == ["/renewed"]
        assert (await bridge.subscribe(session_id, receiver.url("/new"))).status == 200
        server.clock.advance(30 * _DAY - _MS)
        assert await notified(bridge, receiver, session_id) == ["/new"]

        await bridge.subscribe(session_id, receiver.url("/renewed"))
        (await bridge.subscribe(session_id, _HOOK)).problem(409)
        await bridge.end(session_id)
        assert (await bridge.subscribe(session_id, _HOOK)).status == 200


async def test_a_topic_is_a_text_of_1_to_128_characters(bridge: BridgeClient) -> None:
    for topic in ("", "t" * 129, "😀" * 129, None, 1):
        assert pointers((await bridge.subscribe(topic, _HOOK)).problem(400)) == ["#/topic"], topic
    for right in ("t", "😀" * 128):
        assert (await bridge.subscribe(right, _HOOK)).status == 200


_PUSH = {"type": "fcm", "token": "token", "webhook": "https://example.org/push"}


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


async def test_push_details_are_kept_when_absent_removed_by_null_and_replaced_by_an_object(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    updates: list[tuple[dict[str, Any], list[str]]] = [
        ({}, []),
        ({"push": push_to(receiver, "/first")}, ["/first"]),
        ({}, ["/first"]),
        ({"push": push_to(receiver, "/second")}, ["/second"]),
        ({"push": None}, []),
        ({}, []),
    ]
    for update, paths in updates:
        await bridge.update(session_id, **update)
        assert await notified(bridge, receiver, session_id) == paths


@each_row(("name", "most"), [("type", 64), ("token", 4096), ("webhook", 2048)])
async def test_each_push_detail_is_a_required_string_no_longer_than_it_may_be(
    bridge: BridgeClient, name: str, most: int
) -> None:
    session_id = await bridge.open_session()
    others = {field: text for field, text in _PUSH.items() if field != name}
    longest = _PUSH[name] + "x" * (most - len(_PUSH[name]))
    for wrong in (others, {**others, name: None}, {**others, name: 1}, {**others, name: longest + "x"}):
        problem = (await bridge.update(session_id, push=wrong)).problem(400)
        assert pointers(problem) == [f"#/push/{name}"]

    assert str(most) in problem["errors"][0]["detail"]
    assert (await bridge.session(session_id)).status == 204
    assert (await bridge.update(session_id, push={**others, name: longest})).status == 200


async def test_a_refused_update_changes_neither_payload_nor_push(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    await bridge.update(session_id, "kept", push=push_to(receiver, "/kept"))
    (await bridge.update(session_id, "lost", push={"type": "fcm"})).problem(400)
    (await bridge.update(session_id, None, push=None)).problem(400)
    faults = (
        await bridge.update(session_id, None, push={"type": 1, "webhook": "ftp://example.org"})
    ).problem(400)

    assert pointers(faults) == ["#/encryptionPayload", "#/push/type", "#/push/token", "#/push/webhook"]
    assert (await bridge.session(session_id)).json == {"encryptionPayload": "kept"}
    assert await notified(bridge, receiver, session_id) == ["/kept"]


async def test_a_webhook_is_an_absolute_web_url(bridge: BridgeClient, session_id: str) -> None:
    longest = "https://example.org/".ljust(2048, "p")
    push = {"type": "", "token": ""}
    for wrong in ("", "/hook", "ftp://example.org/hook", "https://exam ple.org/", longest + "p", None, 1):
        assert pointers((await bridge.subscribe(session_id, wrong)).problem(400)) == ["#/webhook"], wrong
        updated = await bridge.update(session_id, push={**push, "webhook": wrong})
        assert pointers(updated.problem(400)) == ["#/push/webhook"], wrong
    assert (await bridge.session(session_id)).status == 204
    for right in ("http://[2001:db8::1]:8080/hook", "https://user:word@example.org:8443/?a=b#c", longest):
        assert (await bridge.subscribe(session_id, right)).status == 200
        assert (await bridge.update(session_id, push={**push, "webhook": right})).status == 200


async def test_twenty_calls_whose_webhook_hangs_delay_no_other_session_at_its_host(
    bridge: BridgeClient, receiver: WebhookReceiver
) -> None:
    async def hang_or_answer(receiver: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
        return await (hang if request.path == "/hang" else status(200))(receiver, request)

    receiver.otherwise = hang_or_answer
    stuck, honest = [await bridge.open_session() for _ in range(2)]
    for session_id, path in ((stuck, "/hang"), (honest, "/hook")):
        assert (await bridge.update(session_id, push=push_to(receiver, path))).status == 200
    for _ in range(20):
        await bridge.request_call(stuck)
    await receiver.got(4)

    await bridge.request_call(honest)

    await receiver.got(5)
    assert orjson.loads(receiver.requests[4].body)["sessionId"] == honest


async def test_a_call_counts_to_its_client_and_to_its_session(tmp_path: Path) -> None:
    exempt, hook = "192.0.2.77", "http://192.0.2.1:9/hook"
    async with running_server(tmp_path, trusted_proxies="127.0.0.1", quota_exempt=exempt) as server:
        session_id = await server.open_session()
        await BridgeClient(server).subscribe(session_id, hook)
        path, call = f"/session/{session_id}/call/new", b'{"encryptionPayload":"x","dappName":"Dapp"}'
        for address in ("2001:db8:1:2:3::4", "198.51.100.7", exempt):
            headers = {"X-Forwarded-For": address}
            assert (await ask(server, "POST", path, call, headers=headers)).status == 200

        whose = look(server, "SELECT client, subject, queue, url FROM outbox ORDER BY id")

    whole = (session_id, session_id, hook)
    assert whose == [("2001:db8:1:2::/64", *whole), ("198.51.100.7", *whole), (None, *whole)]
