"""The bridge that a client names: this server's own, or another one that has to take a subscription."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.support import webhook_receiver
from tests.support.eventually import eventually
from tests.support.push_client import TOPIC, PushClient
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import Answer, WebhookReceiver, hang, long_body, reset, status, stuck_body

OWN = [(TOPIC, "push:")]


async def redirect(receiver: WebhookReceiver, _: web.BaseRequest) -> web.Response:
    return web.Response(status=307, headers={"Location": receiver.url("/elsewhere")})


async def test_another_bridge_is_asked_to_call_this_push_server(
    push: PushClient, receiver: WebhookReceiver
) -> None:
    assert (await push.register(bridge=receiver.url("/relay/"))).status == 200

    (request,) = receiver.requests
    assert request.path == "/relay/subscribe"
    assert request.headers["Content-Type"] == "application/json"
    assert orjson.loads(request.body) == {"topic": TOPIC, "webhook": f"{push.server.url}/push"}
    assert push.webhooks() == []


async def test_other_bridge_is_given_the_public_url(tmp_path: Path, receiver: WebhookReceiver) -> None:
    settings: dict[str, Any] = {"public_url": "https://push.example.org/", "allow_private_webhooks": True}
    async with running_server(tmp_path, **settings) as server:
        assert (await PushClient(server).register(bridge=receiver.url(""))).status == 200

    (request,) = receiver.requests
    assert orjson.loads(request.body)["webhook"] == "https://push.example.org/push"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(400), "it answered 400"),
        (status(404), "it answered 404"),
        (status(429), "it answered 429"),
        (status(500), "it answered 500"),
        (redirect, "it answered 307"),
        (reset, ""),
    ],
    ids=["400", "404", "429", "500", "redirect", "reset"],
)
async def test_a_bridge_that_refuses_is_502_and_changes_nothing(
    push: PushClient, receiver: WebhookReceiver, answer: Answer, reason: str
) -> None:
    await push.register(peerName="Before")
    receiver.otherwise = answer

    problem = (await push.register(bridge=receiver.url(""), peerName="After")).problem(502)
    (await push.register(bridge=receiver.url(""), topic="another")).problem(502)

    assert reason in problem["detail"]
    assert "Nothing is registered" in problem["detail"]
    assert push.registrations("topic, peer_name") == [(TOPIC, "Before")]
    assert push.webhooks() == OWN
    assert [request.path for request in receiver.requests] == ["/subscribe", "/subscribe"]


async def test_a_bridge_that_does_not_answer_in_time_is_502(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with running_server(tmp_path, allow_private_webhooks=True, push_timeout=1) as server:
        push = PushClient(server)
        await push.register(peerName="Before")
        receiver.otherwise = hang

        (await push.register(bridge=receiver.url(""), peerName="After")).problem(502)

        assert push.registrations("topic, peer_name") == [(TOPIC, "Before")]


async def test_the_status_of_a_bridge_counts_though_its_body_never_ends(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with running_server(tmp_path, allow_private_webhooks=True, push_timeout=1) as server:
        push = PushClient(server)
        receiver.otherwise = stuck_body

        assert (await push.register(bridge=receiver.url(""))).status == 200

        assert len(push.registrations()) == 1


async def test_a_long_answer_is_not_read_to_its_end(push: PushClient, receiver: WebhookReceiver) -> None:
    receiver.otherwise = long_body(64 * 2**20)

    assert (await push.register(bridge=receiver.url(""))).status == 200

    assert receiver.answered_bytes < 16 * 2**20


async def test_a_bridge_that_is_not_there_is_502(push: PushClient) -> None:
    async with webhook_receiver.open_receiver() as closed:
        url = closed.url("")

    (await push.register(bridge=url)).problem(502)
    (await push.register(bridge="http://bridge.invalid")).problem(502)

    assert push.registrations() == []


async def test_a_private_bridge_is_refused_without_a_request(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with running_server(tmp_path) as server:
        push = PushClient(server)

        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"):
            (await push.register(bridge=receiver.url("", host))).problem(502)

        assert push.registrations() == []
    assert receiver.requests == []


@each_row("host", ["127.0.0.1", "localhost", "[::1]"])
@each_row("end", ["", "/"])
async def test_a_server_without_a_public_url_is_its_own_bridge_by_the_names_of_its_address(
    tmp_path: Path, host: str, end: str
) -> None:
    async with running_server(tmp_path) as server:  # which would refuse a request to itself
        push = PushClient(server)

        answer = await push.register(bridge=server.url.replace("127.0.0.1", host) + end)

        assert answer.status == 200
        assert push.webhooks() == OWN


@each_row("public_url", ["https://bridge.example.org", "https://bridge.example.org/base/"])
@each_row("end", ["", "/"])
async def test_a_server_is_its_own_bridge_by_its_public_url(
    tmp_path: Path, public_url: str, end: str
) -> None:
    async with running_server(tmp_path, public_url=public_url) as server:
        push = PushClient(server)

        assert (await push.register(bridge=public_url.rstrip("/") + end)).status == 200

        assert push.webhooks() == OWN
        (await push.register(topic="other", bridge=server.url)).problem(502)  # a private address by now


@each_row("spelled", ["HTTPS://Bridge.Example.ORG", "https://bridge.example.org:443/"])
async def test_its_public_url_may_be_spelled_otherwise(tmp_path: Path, spelled: str) -> None:
    async with running_server(tmp_path, public_url="https://bridge.example.org") as server:
        push = PushClient(server)

        assert (await push.register(bridge=spelled)).status == 200

        assert push.webhooks() == OWN


async def test_another_bridge_is_asked_nothing_by_a_server_that_it_could_not_call(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        push = PushClient(server)

        problem = (await push.register(bridge="https://bridge.example.org")).problem(502)

        assert "public_url" in problem["detail"]
        assert push.registrations() == []


async def test_later_of_two_registrations_stays_though_the_earlier_is_slow(
    push: PushClient, receiver: WebhookReceiver
) -> None:
    async def is_asked() -> bool:
        return bool(receiver.requests)

    receiver.otherwise = hang
    slow = asyncio.create_task(push.register(bridge=receiver.url(""), peerName="Earlier"))
    await eventually(is_asked)
    fast = asyncio.create_task(push.register(peerName="Later"))
    for number in range(3):  # it would be done before them if it did not wait for its turn
        assert (await push.register(topic=f"other-{number}")).status == 200
    assert not fast.done()

    receiver.released.set()

    assert [(await slow).status, (await fast).status] == [200, 200]
    assert (TOPIC, "Later") in push.registrations("topic, peer_name")
