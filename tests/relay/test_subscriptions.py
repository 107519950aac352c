"""`POST /subscribe`: webhooks that hear of a session's new calls."""

from pathlib import Path
from typing import Any

from tests.support.bridge_client import BridgeClient
from tests.support.figures import METRICS_TOKEN, until_delivered
from tests.support.problems import pointers
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, status

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


async def test_subscribing_succeeds(bridge: BridgeClient, session_id: str) -> None:
    answer = await bridge.subscribe(session_id, _HOOK)

    assert (answer.status, answer.body) == (200, b'{"success":true}')
    assert answer.headers["Content-Type"] == "application/json"


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

    paths = [path for path, _ in await told(bridge, receiver, session_id)]

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

    first = await told(bridge, receiver, session_id)

    others = await told(bridge, receiver, other_session)

    assert [path for path, _ in first] == ["/gone"]
    assert await told(bridge, receiver, session_id) == []
    assert sorted(path for path, _ in others) == ["/gone", "/stays"]


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
        paths.append([path for path, _ in await told(bridge, receiver, session_id)])
        await bridge.subscribe(session_id, receiver.url("/renewed"))
        server.clock.advance(_MS)
        paths.append([path for path, _ in await told(bridge, receiver, session_id)])
        server.clock.advance(30 * _DAY - _MS)
        paths.append([path for path, _ in await told(bridge, receiver, session_id)])

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
