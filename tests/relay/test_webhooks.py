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


async def test_a_call_of_another_session_is_not_sent_to_a_webhook(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    await bridge.subscribe("another topic", receiver.url())
    await bridge.subscribe(await bridge.open_session(), receiver.url())

    assert await told(bridge, receiver, session_id) == []


async def test_a_call_is_sent_to_the_push_webhook_and_to_the_topics_webhooks(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    push = {"type": "fcm", "token": "token", "webhook": receiver.url("/push")}
    await bridge.update(session_id, push=push)
    for number in range(_WEBHOOK_LIMIT):
        await bridge.subscribe(session_id, receiver.url(f"/{number:02}"))

    paths = await notified(bridge, receiver, session_id)

    assert paths == [*(f"/{number:02}" for number in range(_WEBHOOK_LIMIT)), "/push"]


async def test_updates_and_statuses_cause_no_webhook(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    call_id = await bridge.request_call(session_id)
    await bridge.subscribe(session_id, receiver.url())

    await bridge.update(session_id)
    await bridge.answer(call_id)
    await until_delivered(bridge.server)

    assert receiver.requests == []


async def test_a_refused_call_causes_no_webhook(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    await bridge.subscribe(session_id, receiver.url())

    (await bridge.post_call(session_id, None)).problem(400)
    await until_delivered(bridge.server)

    assert receiver.requests == []


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


@each_row("topic", ["t", "t" * 128, "😀" * 128, "\u0000"])
async def test_a_topic_has_1_to_128_characters(bridge: BridgeClient, topic: str) -> None:
    assert (await bridge.subscribe(topic, _HOOK)).status == 200


@each_row("topic", ["", "t" * 129, "😀" * 129, None, 1, ["t"]])
async def test_a_topic_of_another_length_or_type_is_a_fault(bridge: BridgeClient, topic: Any) -> None:
    problem = (await bridge.subscribe(topic, _HOOK)).problem(400)

    assert pointers(problem) == ["#/topic"]


@each_row("fields", [{}, {"topic": None, "webhook": None}])
async def test_a_subscription_needs_a_topic_and_a_webhook(
    bridge: BridgeClient, fields: dict[str, Any]
) -> None:
    problem = (await bridge.send("POST", "/subscribe", fields)).problem(400)

    assert pointers(problem) == ["#/topic", "#/webhook"]


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


async def test_a_session_without_push_details_causes_no_webhook(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    assert await notified(bridge, receiver, session_id) == []

    await bridge.update(session_id)

    assert await notified(bridge, receiver, session_id) == []


async def test_push_details_are_kept_when_absent_removed_by_null_and_replaced_by_an_object(
    bridge: BridgeClient, receiver: WebhookReceiver, session_id: str
) -> None:
    updates: list[tuple[dict[str, Any], list[str]]] = [
        ({"push": push_to(receiver, "/first")}, ["/first"]),
        ({}, ["/first"]),
        ({"push": push_to(receiver, "/second")}, ["/second"]),
        ({"push": None}, []),
        ({}, []),
    ]
    for update, paths in updates:
        await bridge.update(session_id, **update)
        assert await notified(bridge, receiver, session_id) == paths


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


# Which webhooks may be named: absolute web URLs; what is behind them is looked at when they are called.

_LONGEST = "https://example.org/" + "p" * (2048 - len("https://example.org/"))
GOOD = [
    "http://example.org", "https://example.org/hook?key=value&key=%20#part", "HTTPS://EXAMPLE.ORG/Hook",
    "https://user:password@example.org:8443/", "http://[2001:db8::1]:8080/hook", "http://192.0.2.1/hook",
    "http://localhost/hook", "https://example.org:65535/", "https://example.org:1/",
    "https://xn--bcher-kva.example/", "https://a%2Fb/%zz", _LONGEST,
]  # fmt: skip
BAD = [
    "", "example.org/hook", "/hook", "//example.org/hook", "http:example.org", "http://", "http:///hook",
    "http://:80/hook", "http://user@/hook", "ftp://example.org/hook", "file:///etc/passwd",
    "javascript:alert(1)", "data:,x", " https://example.org/", "https://example.org/ ",
    "https://exam ple.org/", "https://example.org/a b", "https://example.org/a\tb",
    "https://example.org/\r\nX-Injected: 1", "https://example.org/\u0000", "https://bücher.example/",
    "https://example.org/😀", "https://example.org:0/", "https://example.org:65536/",
    "https://example.org:99999/", "https://example.org:-1/", "https://example.org:port/", "http://[::1/hook",
    "http://[nonsense]/hook", _LONGEST + "p",
]  # fmt: skip


@each_row("url", GOOD)
async def test_a_webhook_is_an_absolute_web_url(bridge: BridgeClient, url: str) -> None:
    session_id = await bridge.open_session()
    subscribed = await bridge.subscribe(session_id, url)
    updated = await bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert (subscribed.status, updated.status) == (200, 200)
    assert (await bridge.end(session_id)).status == 200


@each_row("url", BAD)
async def test_a_webhook_that_is_no_web_url_is_a_fault(
    bridge: BridgeClient, session_id: str, url: str
) -> None:
    subscribed = await bridge.subscribe(session_id, url)
    updated = await bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert pointers(subscribed.problem(400)) == ["#/webhook"]
    assert pointers(updated.problem(400)) == ["#/push/webhook"]
    assert (await bridge.session(session_id)).status == 204


@each_row("value", [None, 1, False, ["https://example.org/"], {"url": "https://example.org/"}])
async def test_a_webhook_is_a_string(bridge: BridgeClient, session_id: str, value: Any) -> None:
    problem = (await bridge.subscribe(session_id, value)).problem(400)

    assert pointers(problem) == ["#/webhook"]


@each_row(
    "url",
    [
        *(
            "http://[::1%25eth0]/",
            "http://[v1.x]/",
            "http://%00/",
            "http://..../",
            "http://a\\b/",
            "http://a|b/",
        ),
        *("http://1.2.3.4.5/", "http://xn--a/", "http://<a>/", "http://" + "a" * 300, "http://*/"),
    ],
)
async def test_a_call_succeeds_however_odd_its_webhooks_are(closed_bridge: BridgeClient, url: str) -> None:
    session_id = await closed_bridge.open_session()
    await closed_bridge.subscribe(session_id, url)
    await closed_bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert (await closed_bridge.post_call(session_id)).status == 200


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
