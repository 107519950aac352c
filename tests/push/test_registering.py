"""A registration lasts a while, and is replaced by the next for its topic."""

import asyncio
from pathlib import Path

import orjson

from tests.support.eventually import eventually
from tests.support.figures import until_delivered
from tests.support.problems import pointers
from tests.support.push_client import TOPIC, PushClient
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver

_TTL = 30 * 86_400
_MS = 0.001


async def test_the_last_registration_of_a_topic_counts(push: PushClient, receiver: WebhookReceiver) -> None:
    await push.register(type="webhook", token=receiver.url("/old"), peerName="Old", language="en")
    await push.register(type="webhook", token=receiver.url("/new"), peerName="New", language="de")

    await push.push()

    assert push.registrations() == [(TOPIC, "webhook", receiver.url("/new"))]
    (request,) = receiver.requests
    assert (request.path, orjson.loads(request.body)["body"]) == ("/new", "Neue Anfrage von New")


async def test_many_registrations_of_one_topic_at_once_leave_one(push: PushClient) -> None:
    urls = [f"https://device.example/{number}" for number in range(20)]

    answers = await asyncio.gather(*(push.register(type="webhook", token=url) for url in urls))

    assert {answer.status for answer in answers} == {200}
    ((_, _, kept),) = push.registrations()
    assert kept in urls
    assert push.webhooks() == [(TOPIC, "push:")]


async def test_a_registration_expires_unless_it_is_renewed(push: PushClient) -> None:
    await push.register()
    push.clock.advance(_TTL - _MS)
    assert (await push.push()).status == 200
    await push.register()
    push.clock.advance(_TTL - _MS)
    assert (await push.push()).status == 200

    push.clock.advance(_MS)

    (await push.push()).problem(404)


async def test_expired_registration_is_swept(tmp_path: Path) -> None:
    async with running_server(tmp_path, sweep_interval=0.02) as server:
        push = PushClient(server)
        await asyncio.gather(*(push.register(topic=f"topic {number}") for number in range(60)))
        push.clock.advance(10)
        await push.register(topic="later")
        push.clock.advance(_TTL - 10)

        async def only_the_later_one_is_left() -> bool:
            return push.registrations("topic") == [("later",)] and push.webhooks() == [("later", "push:")]

        await eventually(only_the_later_one_is_left)
        assert (await push.push("later")).status == 200


async def test_registering_at_another_bridge_ends_the_subscription_here(
    push: PushClient, receiver: WebhookReceiver
) -> None:
    topic = await push.server.open_session()
    await push.register(topic=topic, type="webhook", token=receiver.url("/device"))

    await push.register(topic=topic, bridge=receiver.url(""), type="webhook", token=receiver.url("/device"))
    await push.server.request_call(topic)
    await until_delivered(push.server)

    assert push.webhooks() == []
    assert [request.path for request in receiver.requests] == ["/subscribe"]


async def test_new_registrations_are_limited_for_each_client(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=(), clients_burst=2) as server:
        push = PushClient(server)

        answers = [await push.register(topic=f"topic {number}") for number in range(3)]

        assert [answer.status for answer in answers] == [200, 200, 429]
        answers[2].problem(429)
        assert answers[2].headers["Retry-After"] == "1"
        assert (await push.push("topic 0")).status == 200


async def test_a_topic_with_as_many_webhooks_as_it_may_have_takes_no_registration(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_topic_webhooks=1) as server:
        push = PushClient(server)
        await push.post("/subscribe", {"topic": TOPIC, "webhook": "https://a.example/"})

        (await push.register()).problem(409)

        assert push.registrations() == []


@each_row(("name", "most"), [("type", 64), ("token", 4096), ("bridge", 2048)])
async def test_text_of_a_registration_has_a_greatest_length(push: PushClient, name: str, most: int) -> None:
    text = "https://example.org/"

    problem = (await push.register(**{name: text + "x" * (most + 1 - len(text))})).problem(400)

    assert pointers(problem) == [f"#/{name}"]
    assert str(most) in problem["errors"][0]["detail"]
    assert push.registrations() == []
