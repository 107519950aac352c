"""`POST /push`: the provider has the push when it answers, or the answer says why not."""

import asyncio
from itertools import product
from pathlib import Path

import aiohttp
import orjson
from aiohttp import web
from structlog.testing import capture_logs

from tests.support.asking import pointers
from tests.support.push_client import TOPIC, PushClient
from tests.support.push_services import SERVICES, PushServices, Shown
from tests.support.rows import each_row
from tests.support.server import running_server, server_process
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, hang


@each_row("channel", SERVICES)
async def test_the_device_has_the_text(connected: PushClient, services: PushServices, channel: str) -> None:
    await connected.register(type=channel, token=services.token(channel), peerName="Börse", language="de-AT")
    for message_id in ("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", "other"):
        assert (await connected.push(message_id=message_id)).status == 200
        shown = services.shown(channel)[-1]
        assert shown == Shown(message_id, "Börse", "Neue Anfrage von Börse", None)


async def test_webhook_gets_the_documented_fields(push: PushClient, receiver: WebhookReceiver) -> None:
    for name, language, title, text in (
        ("Dapp", "fr", "Dapp", "Nouvelle demande envoyée par Dapp"),
        ("", "en", "New request", "New request"),
        ("", "xx", "New request", "New request"),
        ("Dapp", "", "Dapp", "New request from Dapp"),
        ("Da\u202epp\n\u0000!", "EN_us", "Dapp !", "New request from Dapp !"),
    ):
        await push.register(type="webhook", token=receiver.url(), peerName=name, language=language)

        await push.push(message_id="msg_1")

        told = {"title": title, "body": text, "topic": TOPIC, "bridge": push.server.url}
        assert receiver.requests[-1].headers["webhook-id"] == "msg_1"
        assert orjson.loads(receiver.requests[-1].body) == {"event": "request", **told}


async def test_the_log_shows_the_text_for_development(push: PushClient) -> None:
    await push.register(type="log", language="nl")
    with capture_logs() as logs:
        await push.push(message_id="msg_1")
    (line,) = [line for line in logs if line["event"] == "device_notified"]
    assert (line["message_id"], line["title"], line["text"]) == ("msg_1", "Dapp", "Nieuw verzoek van Dapp")


async def test_malformed_ids_and_unknown_topics(push: PushClient, receiver: WebhookReceiver) -> None:
    malformed = ["", "a" * 65, "é", "a/b"]
    await push.register(type="webhook", token=receiver.url())

    for message_id in malformed * 2:
        assert (await push.push(message_id=message_id)).status == 200
    for topic in ("another", TOPIC.upper(), f"{TOPIC} "):
        (await push.push(topic)).problem(404)

    ids = {request.headers["webhook-id"] for request in receiver.requests}
    assert len(ids) == len(receiver.requests) == 2 * len(malformed)
    assert not ids & set(malformed)


@each_row(("channel", "failure"), [*product(SERVICES, ["failing"]), *product(SERVICES[:3], ["too large"])])
async def test_a_provider_that_fails_or_refuses_is_502_and_the_registration_stays(
    connected: PushClient, services: PushServices, channel: str, failure: str
) -> None:
    await connected.register(type=channel, token=services.token(channel))
    services.next_answer(channel, failure)
    problem = (await connected.push()).problem(502)
    assert "503" not in str(problem["detail"])  # that is the operator's to know
    assert services.token(channel) not in str(problem)
    assert (await connected.push()).status == 200


@each_row("channel", SERVICES)
async def test_a_dead_token_is_410(connected: PushClient, services: PushServices, channel: str) -> None:
    await connected.register(type=channel, token=services.token(channel))
    await connected.register(topic="another", type=channel, token=services.token(channel))
    services.next_answer(channel, "dead")

    problem = (await connected.push()).problem(410)

    assert services.token(channel) not in str(problem)
    assert connected.registrations("topic") == [("another",)]
    assert connected.webhooks() == [("another", "push:")]
    (await connected.push()).problem(404)
    assert (await connected.push("another")).status == 200


async def test_a_client_that_registered_anew_stays(push: PushClient, receiver: WebhookReceiver) -> None:
    await push.register(type="webhook", token=receiver.url("/old"))

    async def register_anew(_: WebhookReceiver, __: web.BaseRequest) -> web.StreamResponse:
        await push.register(type="webhook", token=receiver.url("/new"))
        return web.Response(status=410)

    receiver.script.append(register_anew)
    (await push.push()).problem(410)

    assert push.registrations() == [(TOPIC, "webhook", receiver.url("/new"))]
    assert push.webhooks() == [(TOPIC, "push:")]
    assert (await push.push()).status == 200


async def test_a_webhook_at_a_private_address_is_refused(tmp_path: Path, receiver: WebhookReceiver) -> None:
    async with running_server(tmp_path) as server:
        push = PushClient(server)
        await push.register(type="webhook", token=receiver.url())
        (await push.push()).problem(502)
    assert receiver.requests == []


async def test_a_webhook_is_signed_with_the_servers_secret(tmp_path: Path, receiver: WebhookReceiver) -> None:
    secret = "whsec_" + "Z" * 32
    async with running_server(tmp_path, allow_private_webhooks=True, webhook_secret=secret) as server:
        push = PushClient(server)
        await push.register(type="webhook", token=receiver.url())
        await push.push()
    assert receiver.requests[0].headers["webhook-signature"].startswith("v1,")


async def test_a_push_does_not_cause_another(push: PushClient, receiver: WebhookReceiver) -> None:
    own = await push.register(type="webhook", token=f"{push.server.url}/push")
    assert pointers(own.problem(400)) == ["#/token"]
    assert push.registrations() == []

    await push.register(type="webhook", token=receiver.url("/device"))
    await push.push()
    (told,) = receiver.requests
    (await push.post("/push", told.body)).problem(400)
    assert len(receiver.requests) == 1


async def test_a_server_that_stops_answers_who_waits(tmp_path: Path, receiver: WebhookReceiver) -> None:
    receiver.otherwise = hang
    fields = {"topic": TOPIC, "type": "webhook", "token": receiver.url("/"), "peerName": "", "language": ""}
    environment = {"BRIDGE_WEBHOOK_TIMEOUT": "60"}

    with server_process(tmp_path / "data", "--allow-private-webhooks", environment=environment) as server:
        async with aiohttp.ClientSession(server.url) as client:
            async with client.post("/new", json={"bridge": server.url, **fields}) as registered:
                assert registered.status == 200
            pushing = asyncio.create_task(client.post("/push", json={"topic": TOPIC}))
            await eventually(lambda: bool(receiver.requests))

            exit_code = await asyncio.to_thread(server.stop)

            assert (await pushing).status == 502
            assert exit_code == 0
