"""Webhooks: of a session's topic and of its wallet, which URLs they may have, and whose they are."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.support.asking import METRICS_TOKEN, ask, pointers, until_delivered
from tests.support.bridge_client import BridgeClient
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, hang, status

# `POST /subscribe`: webhooks that hear of a session's new calls.

_DAY = 86_400
_MS = 0.001
_WEBHOOK_LIMIT = 16
_HOOK = "https://example.org/hook"


async def told(bridge: BridgeClient, receiver: WebhookReceiver, session_id: str) -> list[tuple[str, bytes]]:
    """Where, and with what body, one new call is told."""
    receiver.requests.clear()
    await bridge.request_call(session_id)
    await until_delivered(bridge.server)
    return sorted((request.path, request.body) for request in receiver.requests)


async def notified(bridge: BridgeClient, receiver: WebhookReceiver, session_id: str) -> list[str]:
    """The paths that one new call is told at."""
    return [path for path, _ in await told(bridge, receiver, session_id)]


async def test_a_call_is_sent_once_to_each_webhook_of_the_topic(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    notice = f'{{"topic":"{session_id}"}}'.encode()
    for path in ("/one", "/two", "/one"):
        await bridge.subscribe(session_id, receiver.url(path))

    assert await told(bridge, receiver, session_id) == [("/one", notice), ("/two", notice)]
    assert await told(bridge, receiver, session_id) == [("/one", notice), ("/two", notice)]


async def test_a_call_is_sent_to_the_push_webhook_and_to_the_topics_webhooks(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    push = {"type": "fcm", "token": "token", "webhook": receiver.url("/push")}
    await bridge.update(session_id, push=push)
    for number in range(_WEBHOOK_LIMIT):
        await bridge.subscribe(session_id, receiver.url(f"/{number:02}"))

    paths = await notified(bridge, receiver, session_id)

    assert paths == [*(f"/{number:02}" for number in range(_WEBHOOK_LIMIT)), "/push"]


async def test_a_webhook_that_answers_410_is_removed_from_that_session_alone(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    other_session = await bridge.open_session()
    gone = receiver.url("/gone")
    await bridge.update(session_id, push={"type": "fcm", "token": "token", "webhook": gone})
    await bridge.subscribe(other_session, gone)
    await bridge.subscribe(other_session, receiver.url("/stays"))
    receiver.script.append(status(410))

    assert await notified(bridge, receiver, session_id) == ["/gone"]
    assert await notified(bridge, receiver, other_session) == ["/gone", "/stays"]
    assert await notified(bridge, receiver, session_id) == []


async def test_a_session_that_ends_takes_its_subscriptions_along(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_topic_webhooks=1) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        await bridge.subscribe(session_id, _HOOK)
        (await bridge.subscribe(session_id, f"{_HOOK}/2")).problem(409)

        await bridge.end(session_id)

        assert (await bridge.subscribe(session_id, f"{_HOOK}/2")).status == 200


async def test_a_topic_has_at_most_16_webhooks(bridge: BridgeClient, session_id: str) -> None:
    accepted = [await bridge.subscribe(session_id, f"{_HOOK}/{n}") for n in range(_WEBHOOK_LIMIT)]

    refused = await bridge.subscribe(session_id, f"{_HOOK}/16")

    assert [answer.status for answer in accepted] == [200] * _WEBHOOK_LIMIT
    assert refused.problem(409)["type"].endswith(":too-many-webhooks")
    assert (await bridge.subscribe(session_id, f"{_HOOK}/0")).status == 200
    assert (await bridge.subscribe("another topic", f"{_HOOK}/16")).status == 200


async def test_a_subscription_holds_for_30_days(tmp_path: Path, receiver: WebhookReceiver) -> None:
    async with running_server(
        tmp_path, metrics_token=METRICS_TOKEN, allow_private_webhooks=True, session_ttl=90 * _DAY
    ) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        await bridge.subscribe(session_id, receiver.url("/once"))
        await bridge.subscribe(session_id, receiver.url("/renewed"))
        paths = []

        server.clock.advance(30 * _DAY - _MS)
        paths.append(await notified(bridge, receiver, session_id))
        await bridge.subscribe(session_id, receiver.url("/renewed"))
        server.clock.advance(_MS)
        paths.append(await notified(bridge, receiver, session_id))
        server.clock.advance(30 * _DAY - _MS)
        paths.append(await notified(bridge, receiver, session_id))

        assert paths == [["/once", "/renewed"], ["/renewed"], []]


async def test_an_expired_subscription_frees_its_place(bridge: BridgeClient) -> None:
    for number in range(_WEBHOOK_LIMIT):
        await bridge.subscribe("topic", f"{_HOOK}/{number}")

    bridge.clock.advance(30 * _DAY - _MS)
    before = await bridge.subscribe("topic", f"{_HOOK}/new")
    bridge.clock.advance(_MS)
    after = await bridge.subscribe("topic", f"{_HOOK}/new")

    assert (before.status, after.status) == (409, 200)


@each_row("topic", ["", "t" * 129, "😀" * 129, None, 1])
async def test_a_topic_is_a_text_of_1_to_128_characters(bridge: BridgeClient, topic: Any) -> None:
    problem = (await bridge.subscribe(topic, _HOOK)).problem(400)

    assert pointers(problem) == ["#/topic"]
    for right in ("t", "😀" * 128):
        assert (await bridge.subscribe(right, _HOOK)).status == 200


# The wallet's push details: kept when absent, removed by null, replaced by an object.

_PUSH = {"type": "fcm", "token": "token", "webhook": "https://example.org/push"}


def push_to(receiver: WebhookReceiver, path: str, **more: Any) -> dict[str, Any]:
    return {"type": "fcm", "token": "token", "webhook": receiver.url(path), **more}


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


@each_row("name", ["type", "token", "webhook"])
@each_row("value", ["absent", None, 1])
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


# Which webhooks may be named: absolute web URLs; what is behind them is looked at when they are called.

_LONGEST = "https://example.org/" + "p" * (2048 - len("https://example.org/"))


_LONGEST = "https://example.org/" + "p" * (2048 - len("https://example.org/"))


@each_row("url", ["http://[2001:db8::1]:8080/hook", "https://user:word@example.org:8443/?a=b#c", _LONGEST])
async def test_a_webhook_is_an_absolute_web_url(bridge: BridgeClient, url: str) -> None:
    session_id = await bridge.open_session()
    subscribed = await bridge.subscribe(session_id, url)
    updated = await bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert (subscribed.status, updated.status) == (200, 200)


@each_row("url", ["", "/hook", "ftp://example.org/hook", "https://exam ple.org/", _LONGEST + "p", None, 1])
async def test_a_webhook_that_is_no_web_url_is_a_fault(
    bridge: BridgeClient, session_id: str, url: Any
) -> None:
    subscribed = await bridge.subscribe(session_id, url)
    updated = await bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert pointers(subscribed.problem(400)) == ["#/webhook"]
    assert pointers(updated.problem(400)) == ["#/push/webhook"]
    assert (await bridge.session(session_id)).status == 204


# Webhooks are counted to the client and the session that cause them, and none waits for another's.

_COLUMNS = "client, subject, queue, url"


async def hang_or_answer(receiver: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
    return await (hang if request.path == "/hang" else status(200))(receiver, request)


async def test_twenty_calls_whose_webhook_hangs_delay_no_other_session_at_its_host(
    bridge: BridgeClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = hang_or_answer
    stuck, honest = [await bridge.open_session() for _ in range(2)]
    for session_id, path in ((stuck, "/hang"), (honest, "/hook")):
        push = {"type": "fcm", "token": "token", "webhook": receiver.url(path)}
        assert (await bridge.update(session_id, push=push)).status == 200
    for _ in range(20):
        await bridge.request_call(stuck)
    await receiver.got(4)

    await bridge.request_call(honest)

    await receiver.got(5)
    assert orjson.loads(receiver.requests[4].body)["sessionId"] == honest


async def test_a_call_counts_to_its_client_and_to_its_session(tmp_path: Path) -> None:
    exempt = "192.0.2.77"
    async with running_server(tmp_path, trusted_proxies="127.0.0.1", quota_exempt=exempt) as server:
        session_id = await server.open_session()
        await BridgeClient(server).subscribe(session_id, "http://192.0.2.1:9/hook")
        call = orjson.dumps({"encryptionPayload": "x", "dappName": "Dapp"})
        for address in ("2001:db8:1:2:3::4", "198.51.100.7", "192.0.2.77"):
            path, headers = f"/session/{session_id}/call/new", {"X-Forwarded-For": address}
            assert (await ask(server, "POST", path, call, headers=headers)).status == 200

        whose = look(server, f"SELECT {_COLUMNS} FROM outbox ORDER BY id")

    assert [row[0] for row in whose] == ["2001:db8:1:2::/64", "198.51.100.7", None]
    assert {row[1:] for row in whose} == {(session_id, session_id, "http://192.0.2.1:9/hook")}
