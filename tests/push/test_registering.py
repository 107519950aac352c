"""A registration: how long it lasts, what replaces it, and the bridge that it names."""

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from tests.support import webhook_receiver
from tests.support.asking import until_delivered
from tests.support.push_client import TOPIC, PushClient
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, hang, reset, status, stuck_body

OWN = [(TOPIC, "push:")]
ORG = "https://bridge.example.org"
_TTL, _MS = 30 * 86_400, 0.001


async def test_the_last_registration_of_a_topic_counts(push: PushClient, receiver: WebhookReceiver) -> None:
    urls = [f"https://device.example/{number}" for number in range(20)]

    answers = await asyncio.gather(*(push.register(type="webhook", token=url) for url in urls))
    assert {answer.status for answer in answers} == {200}
    ((_, _, kept),) = push.registrations()
    assert kept in urls
    assert push.webhooks() == OWN

    await push.register(type="webhook", token=receiver.url("/new"), peerName="New", language="de")
    await push.push()
    assert push.registrations() == [(TOPIC, "webhook", receiver.url("/new"))]
    (request,) = receiver.requests
    assert (request.path, orjson.loads(request.body)["body"]) == ("/new", "Neue Anfrage von New")


async def test_a_registration_expires_unless_it_is_renewed(push: PushClient) -> None:
    for _ in range(2):
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

        await eventually(lambda: push.registrations("topic") == [("later",)])
        await eventually(lambda: push.webhooks() == [("later", "push:")])
        assert (await push.push("later")).status == 200


async def test_new_registrations_are_limited_for_each_client(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=(), clients_burst=2) as server:
        push = PushClient(server)

        *taken, refused = [await push.register(topic=f"topic {number}") for number in range(3)]

        assert [answer.status for answer in taken] == [200, 200]
        refused.problem(429)
        assert refused.headers["Retry-After"] == "1"
        assert (await push.push("topic 0")).status == 200


async def test_a_topic_with_as_many_webhooks_as_it_may_have_takes_no_registration(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_topic_webhooks=1) as server:
        push = PushClient(server)
        await push.post("/subscribe", {"topic": TOPIC, "webhook": "https://a.example/"})
        (await push.register()).problem(409)
        assert push.registrations() == []


# The bridge that a client names: this server's own, or another one that has to take a subscription.


async def test_another_bridge_is_to_call_this_server(push: PushClient, receiver: WebhookReceiver) -> None:
    topic = await push.server.open_session()
    device = {"topic": topic, "type": "webhook", "token": receiver.url("/device")}
    await push.register(**device)

    assert (await push.register(bridge=receiver.url("/relay/"), **device)).status == 200
    await push.server.request_call(topic)
    await until_delivered(push.server)

    (request,) = receiver.requests
    assert request.path == "/relay/subscribe"
    assert request.headers["Content-Type"] == "application/json"
    assert orjson.loads(request.body) == {"topic": topic, "webhook": f"{push.server.url}/push"}
    assert push.webhooks() == []


async def test_a_bridge_that_refuses_is_502(push: PushClient, receiver: WebhookReceiver) -> None:
    redirect = status(307, Location=receiver.url("/elsewhere"))
    await push.register(peerName="Before")

    for answer, reason in ((status(400), "it answered 400"), (redirect, "it answered 307"), (reset, "")):
        receiver.requests.clear()
        receiver.otherwise = answer
        problem = (await push.register(bridge=receiver.url(""), peerName="After")).problem(502)
        (await push.register(bridge=receiver.url(""), topic="another")).problem(502)
        assert reason in problem["detail"]
        assert "Nothing is registered" in problem["detail"]
        assert [request.path for request in receiver.requests] == ["/subscribe", "/subscribe"]

    async with webhook_receiver.open_receiver() as closed:
        url = closed.url("")
    for bridge in (url, "http://bridge.invalid"):
        (await push.register(bridge=bridge)).problem(502)

    assert push.registrations("topic, peer_name") == [(TOPIC, "Before")]
    assert push.webhooks() == OWN


async def test_a_bridge_has_its_time_for_the_status(tmp_path: Path, receiver: WebhookReceiver) -> None:
    receiver.script.extend([hang, stuck_body])
    async with running_server(tmp_path, allow_private_webhooks=True, push_timeout=3) as server:
        push = PushClient(server)
        await push.register(peerName="Before")

        (await push.register(bridge=receiver.url(""), peerName="After")).problem(502)

        assert push.registrations("topic, peer_name") == [(TOPIC, "Before")]
        assert (await push.register(bridge=receiver.url(""), peerName="After")).status == 200
        assert push.registrations("topic, peer_name") == [(TOPIC, "After")]


async def test_a_server_without_a_public_url(tmp_path: Path, receiver: WebhookReceiver) -> None:
    async with running_server(tmp_path) as server:  # which would refuse a request to itself
        push = PushClient(server)

        for host, end in product(("127.0.0.1", "localhost", "[::1]"), ("", "/")):
            own = server.url.replace("127.0.0.1", host) + end
            assert (await push.register(bridge=own, topic=f"{host}{end}")).status == 200
        problem = (await push.register(bridge="https://bridge.example.org")).problem(502)
        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"):
            (await push.register(bridge=receiver.url("", host))).problem(502)

        assert {webhook for _, webhook in push.webhooks()} == {"push:"}
        assert len(push.webhooks()) == len(push.registrations()) == 6
        assert "public_url" in problem["detail"]
    assert receiver.requests == []


@each_row(
    ("public_url", "spellings"),
    [
        (ORG, [ORG, f"{ORG}/", f"{ORG}:443/", "HTTPS://Bridge.Example.ORG"]),
        (f"{ORG}/base/", [f"{ORG}/base", f"{ORG}/base/"]),
    ],
)
async def test_a_server_with_a_public_url(tmp_path: Path, public_url: str, spellings: list[str]) -> None:
    settings: dict[str, Any] = {"public_url": public_url, "allow_private_webhooks": True}
    async with running_server(tmp_path, **settings) as server, webhook_receiver.open_receiver() as other:
        push = PushClient(server)

        for own in spellings:
            assert (await push.register(bridge=own, topic=own)).status == 200

        assert [webhook for _, webhook in push.webhooks()] == ["push:"] * len(spellings)
        assert (await push.register(topic="other", bridge=other.url(""))).status == 200

    (request,) = other.requests
    assert orjson.loads(request.body)["webhook"] == f"{public_url.rstrip('/')}/push"


async def test_bridges_that_hang_take_256_connections_and_stop_no_other(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = hang
    async with running_server(tmp_path, allow_private_webhooks=True, push_timeout=60) as server:
        push, foreign = PushClient(server), receiver.url("")
        waiting = [
            asyncio.create_task(push.register(bridge=foreign, topic=f"topic {number}"))
            for number in range(256)
        ]
        await receiver.got(256)

        refused = await push.register(bridge=foreign, topic="one more")

        assert refused.problem(503)["type"].endswith(":too-many-pushes")
        assert len(receiver.requests) == 256
        assert [(await push.register()).status, (await push.push()).status] == [200, 200]
        receiver.released.set()
        assert {(await each).status for each in waiting} == {200}
        assert (await push.register(bridge=foreign, topic="one more")).status == 200


async def test_later_registration_stays_after_a_slow_one(push: PushClient, receiver: WebhookReceiver) -> None:
    receiver.otherwise = hang
    slow = asyncio.create_task(push.register(bridge=receiver.url(""), peerName="Earlier"))
    await receiver.got(1)
    fast = asyncio.create_task(push.register(peerName="Later"))
    for number in range(3):  # it would be done before them if it did not wait for its turn
        assert (await push.register(topic=f"other-{number}")).status == 200
    assert not fast.done()

    receiver.released.set()

    assert [(await slow).status, (await fast).status] == [200, 200]
    assert (TOPIC, "Later") in push.registrations("topic, peer_name")
