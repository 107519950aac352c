"""How deliveries to a device go, as the operator sees it: never where the device is."""

from typing import Any

import pytest

from tests.support.admin_client import AdminClient
from tests.support.eventually import eventually
from tests.support.figures import until_delivered
from tests.support.inbox_client import InboxClient
from tests.support.project import App, execute, look
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN, SERVICES, PushServices

NOW, LATER = "2027-01-15T08:00:00.000Z", "2027-01-15T08:01:00.000Z"


async def states(app: App, account: str) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = (
        await AdminClient(app.server).get(f"/admin/accounts/{account}/devices")
    ).json["devices"]
    return devices


async def state(app: App, reader: InboxClient) -> dict[str, Any]:
    (device,) = await states(app, reader.account)
    return device


async def until_tried(app: App, attempts: int) -> None:
    async def tried() -> bool:
        return look(app.server, "SELECT attempts FROM outbox") == [(attempts,)]

    await eventually(tried)


async def test_a_device_that_nothing_was_sent_to_is_new(app: App, subscriber: InboxClient) -> None:
    device = (await subscriber.add_device("fcm", FCM_TOKEN)).json

    assert await state(app, subscriber) == {
        "id": device["id"],
        "channel": "fcm",
        "created_at": NOW,
        "state": "new",
        "queued": 0,
        "delivered_at": None,
        "failed_at": None,
        "error": None,
    }


@pytest.mark.parametrize("channel", ["fcm", "webhook"])
async def test_device_state_is_queued_until_an_attempt_succeeds(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    await subscriber.add_device(channel, services.token(channel))
    services.next_answer(channel, "failing")

    await app.notify([subscriber.account])
    await until_tried(app, 1)
    queued = await state(app, subscriber)
    app.server.clock.advance(60)
    await until_delivered(app.server)
    delivered = await state(app, subscriber)

    assert (queued["state"], queued["queued"], queued["delivered_at"]) == ("queued", 1, None)
    assert queued["failed_at"] == NOW
    assert "503" in queued["error"]
    assert (delivered["state"], delivered["queued"], delivered["error"]) == ("delivered", 0, None)
    assert (delivered["failed_at"], delivered["delivered_at"]) == (NOW, LATER)


@pytest.mark.parametrize("channel", ["fcm", "apns", "webpush"])
async def test_device_state_after_the_last_attempt_is_failed_with_the_reason(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    await subscriber.add_device(channel, services.token(channel))
    services.next_answer(channel, "too large")

    await app.notify([subscriber.account])
    await until_delivered(app.server)

    device = await state(app, subscriber)
    assert (device["state"], device["queued"], device["failed_at"]) == ("failed", 0, NOW)
    assert "400" in device["error"] or "413" in device["error"]


async def test_device_state_after_a_day_of_attempts_is_failed(app: App, subscriber: InboxClient) -> None:
    await subscriber.add_device("webhook", "http://127.0.0.1:9/")
    await app.notify([subscriber.account])
    await until_tried(app, 1)
    execute(app.server, "UPDATE outbox SET attempts = 10")

    app.server.clock.advance(86_400)
    await until_delivered(app.server)

    device = await state(app, subscriber)
    assert (device["state"], device["queued"]) == ("failed", 0)
    assert device["error"]


async def test_devices_are_listed_in_the_order_in_which_they_came_and_without_addresses(
    app: App, subscriber: InboxClient, services: PushServices
) -> None:
    for channel in SERVICES:
        await subscriber.add_device(channel, services.token(channel))
    await app.notify([subscriber.account])
    await until_delivered(app.server)

    listed = await states(app, subscriber.account)

    assert [device["channel"] for device in listed] == list(SERVICES)
    secrets = (FCM_TOKEN, APNS_TOKEN, services.browser.auth, "127.0.0.1")
    assert not any(secret in str(listed) for secret in secrets)


async def test_an_account_is_known_by_its_address(app: App, subscriber: InboxClient) -> None:
    await subscriber.add_device("log")

    other_chain = subscriber.account.replace("eip155:1:", "eip155:137:").lower()

    assert len(await states(app, other_chain)) == 1


async def test_an_account_without_devices_has_none(app: App, subscriber: InboxClient) -> None:
    assert await states(app, subscriber.account) == []
    assert await states(app, "eip155:1:0x" + "9" * 40) == []


async def test_malformed_account_is_refused(app: App) -> None:
    (await AdminClient(app.server).get("/admin/accounts/nobody/devices")).problem(400)
