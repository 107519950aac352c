"""An account's devices: what a project publishes reaches each, and the operator sees how."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from tests.support import apns_service, fcm_service
from tests.support.admin_client import AdminClient
from tests.support.asking import ask, figure, pointers, until_delivered
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App, look
from tests.support.push_client import PushClient
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN, SERVICES, PushServices, Shown
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

URL = "https://app.example.org/offer"
NOWHERE = "http://192.0.2.1:9/hook"
NOW, LATER = "2027-01-15T08:00:00.000Z", "2027-01-15T08:01:00.000Z"


async def add(reader: InboxClient, services: PushServices, *channels: str) -> list[str]:
    """Register the device of each channel; returns their ids."""
    answers = [await reader.add_device(channel, services.token(channel)) for channel in channels]
    return [answer.json["id"] for answer in answers]


async def states(app: App, account: str) -> list[dict[str, Any]]:
    """An account's devices as the operator sees them."""
    answer = await AdminClient(app.server).get(f"/admin/accounts/{account}/devices")
    listed: list[dict[str, Any]] = answer.json["devices"]
    return listed


async def test_every_device_gets_one_push(app: App, subscriber: InboxClient, services: PushServices) -> None:
    ids = await add(subscriber, services, *SERVICES)
    logged = await subscriber.add_device("log")

    with capture_logs() as logs:
        await app.notify([subscriber.account], title="Prices", body="They “fall”", url=URL)
        await until_delivered(app.server)

    (number,) = await subscriber.ids()
    for channel, device_id in zip(SERVICES, ids, strict=True):
        assert services.shown(channel) == [Shown(f"{device_id}.{number}", "Prices", "They “fall”", URL)]
    (line,) = [line for line in logs if line["event"] == "device_notified"]
    assert (line["title"], line["text"], line["account"]) == ("Prices", "They “fall”", subscriber.account)
    assert line["device"] == logged.json["id"]
    assert services.fcm.received[0].message["data"] == {
        "id": f"{ids[0]}.{number}",
        "url": URL,
        "event": "notification",
        "notification_id": str(number),
        "project_id": app.project_id,
        "project_name": "App",
        "account": subscriber.account,
        "type": "news",
        "sent_at": NOW,
    }


async def test_a_browsers_subscription(app: App, subscriber: InboxClient, services: PushServices) -> None:
    text = services.subscription

    device = (await subscriber.add_device("webpush", orjson.loads(text))).json
    again = (await subscriber.add_device("WebPush", text)).json
    await app.notify([subscriber.account])
    await until_delivered(app.server)

    assert len(services.shown("webpush")) == 1
    assert again == device
    assert (device["channel"], device["address"]) == ("webpush", None)


async def test_addresses_are_never_shown(app: App, subscriber: InboxClient, services: PushServices) -> None:
    assert await states(app, subscriber.account) == []
    assert await states(app, "eip155:1:0x" + "9" * 40) == []
    (await AdminClient(app.server).get("/admin/accounts/nobody/devices")).problem(400)
    await add(subscriber, services, *SERVICES)

    own, operators = await subscriber.devices(), await states(app, subscriber.account)

    for listed in (own, operators):
        assert [device["channel"] for device in listed] == list(SERVICES)
        assert not any(secret in str(listed) for secret in (FCM_TOKEN, APNS_TOKEN, services.browser.auth))
    assert [device["address"] is None for device in own] == [True, True, True, False]
    assert "127.0.0.1" not in str(operators)
    other_chain = subscriber.account.replace("eip155:1:", "eip155:137:").lower()
    assert await states(app, other_chain) == operators


async def test_malformed_address_of_a_channel_is_refused(subscriber: InboxClient) -> None:
    no_keys = {"endpoint": "https://push.example/"}
    for channel, address in (
        ("fcm", "with a space"), ("fcm", {"token": "a"}), ("webpush", no_keys), ("webpush", None)
    ):  # fmt: skip
        problem = (await subscriber.add_device(channel, address)).problem(400)
        assert pointers(problem) == ["#/address"]


async def test_dead_token_ends_its_device(app: App, subscriber: InboxClient, services: PushServices) -> None:
    other = await sign_in(app.server, 2)
    await other.subscribe(app.project_id)
    for reader in (subscriber, other):
        await add(reader, services, *SERVICES)

    for number, channel in enumerate(SERVICES):
        services.next_answer(channel, "dead")
        await app.notify([subscriber.account])
        await until_delivered(app.server)

        assert [device["channel"] for device in await subscriber.devices()] == list(SERVICES[number + 1 :])
    assert [device["channel"] for device in await other.devices()] == list(SERVICES)
    await app.notify([subscriber.account, other.account])
    await until_delivered(app.server)
    assert [len(services.shown(channel)) for channel in SERVICES] == [2, 3, 4, 5]


async def test_failed_pushes_are_repeated(app: App, subscriber: InboxClient, services: PushServices) -> None:
    await add(subscriber, services, *SERVICES)
    for channel in SERVICES:
        services.next_answer(channel, "failing")

    await app.notify([subscriber.account])
    await eventually(lambda: look(app.server, "SELECT attempts FROM outbox") == [(1,)] * 4)
    queued = await states(app, subscriber.account)
    app.server.clock.advance(60)
    await until_delivered(app.server)
    delivered = await states(app, subscriber.account)

    for channel, before, after in zip(SERVICES, queued, delivered, strict=True):
        first, again = services.shown(channel)
        assert first == again
        assert "503" in before["error"]
        told = {"state": "queued", "queued": 1, "failed_at": NOW, "delivered_at": None}
        assert before == {**before, **told}
        told = {"state": "delivered", "queued": 0, "error": None, "failed_at": NOW, "delivered_at": LATER}
        assert after == {**after, **told}


async def test_too_large_push_is_given_up(app: App, subscriber: InboxClient, services: PushServices) -> None:
    providers = ("fcm", "apns", "webpush")
    await add(subscriber, services, *providers)
    for channel in providers:
        services.next_answer(channel, "too large")

    await app.notify([subscriber.account], title="too large")
    await until_delivered(app.server)
    devices = await states(app, subscriber.account)
    await app.notify([subscriber.account], title="small")
    await until_delivered(app.server)

    for channel, device in zip(providers, devices, strict=True):
        assert [shown.title for shown in services.shown(channel)] == ["too large", "small"]
        assert (device["state"], device["queued"], device["failed_at"]) == ("failed", 0, NOW)
        assert "400" in device["error"] or "413" in device["error"]
    assert look(app.server, "SELECT attempts, next_attempt_at_ms FROM outbox") == [(1, None)] * 3


@pytest.mark.parametrize("slow", ["fcm", "apns"])
async def test_a_provider_that_hangs_delays_no_other(
    app: App, subscriber: InboxClient, services: PushServices, slow: str
) -> None:
    fast = [channel for channel in SERVICES if channel != slow]
    many = [await sign_in(app.server, number) for number in range(2, 8)]
    if slow == "fcm":
        services.fcm.otherwise = fcm_service.hang
    else:
        services.apns.otherwise = apns_service.hang
    for reader in many:
        await reader.subscribe(app.project_id)
        for number in range(15):
            await reader.add_device(slow, f"{number:02d}" * 32)
    await add(subscriber, services, *fast)

    await app.notify([reader.account for reader in many])
    await services.got(slow, 60)
    await app.notify([subscriber.account], title="fast")
    for channel in fast:
        assert [shown.title for shown in await services.got(channel, 1)] == ["fast"]

    await eventually(lambda: look(app.server, "SELECT count(*), max(attempts) FROM outbox") == [(90, 0)])
    services.fcm.released.set()
    services.apns.otherwise = apns_service.taken
    for connection in services.apns.connections:
        connection.abort()


async def test_pushes_end_with_the_device(app: App, subscriber: InboxClient, services: PushServices) -> None:
    removed, _ = await add(subscriber, services, "fcm", "apns")
    services.fcm.otherwise = fcm_service.refusal("UNAVAILABLE", Retry_After="300")
    services.apns.otherwise = apns_service.refusal("ServiceUnavailable", retry_after="300")
    await app.notify([subscriber.account])
    await eventually(lambda: look(app.server, "SELECT attempts FROM outbox") == [(1,), (1,)])
    for _ in range(2):
        await app.notify([subscriber.account])
    await subscriber.ask("DELETE", f"/devices/{removed}")

    assert look(app.server, "SELECT destination, count(*) FROM outbox GROUP BY destination") == [("apns", 3)]
    assert await figure(app.server, "outbox_due") == 3
    services.fcm.otherwise = fcm_service.taken
    services.apns.otherwise = apns_service.taken
    app.server.clock.advance(600)
    await until_delivered(app.server)
    assert look(app.server, "SELECT count(*) FROM outbox") == [(0,)]
    assert [len(services.shown(channel)) for channel in ("fcm", "apns")] == [1, 4]


# For whom a queued push is sent.


async def senders_of_webhooks(server: RunningServer) -> list[tuple[object, ...]]:
    """Client, subject and queue of the webhooks to an address that takes none, once there are some."""
    sql = "SELECT client, subject, queue FROM outbox WHERE url LIKE 'http:%' ORDER BY id"
    await eventually(lambda: bool(look(server, sql)))
    return look(server, sql)


async def test_push_of_a_new_call_counts_for_its_caller(tmp_path: Path) -> None:
    exempt = "192.0.2.77"
    async with running_server(tmp_path, trusted_proxies="127.0.0.1", quota_exempt=exempt) as server:
        topic = await server.open_session()
        assert (await PushClient(server).register(topic=topic, type="webhook", token=NOWHERE)).status == 200
        call, headers = b'{"encryptionPayload":"x","dappName":"Dapp"}', {"X-Forwarded-For": "198.51.100.7"}
        assert (await ask(server, "POST", f"/session/{topic}/call/new", call, headers=headers)).status == 200

        assert await senders_of_webhooks(server) == [("198.51.100.7", topic, topic)]


async def test_a_notification_counts_to_its_project(app: App, subscriber: InboxClient) -> None:
    devices = [(await subscriber.add_device("webhook", f"{NOWHERE}/{number}")).json for number in range(2)]
    await subscriber.add_device("fcm", FCM_TOKEN)
    await app.notify([subscriber.account])
    assert await senders_of_webhooks(app.server) == [(None, app.project_id, each["id"]) for each in devices]
