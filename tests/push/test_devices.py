"""An account's devices: what a project publishes reaches each through its own push service."""

import asyncio
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from tests.support import apns_service, fcm_service
from tests.support.eventually import eventually
from tests.support.figures import figure, until_delivered
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.problems import pointers
from tests.support.project import App, look, until_tried
from tests.support.push_client import PushClient
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN, SERVICES, PushServices
from tests.support.rows import each_row

URL = "https://app.example.org/offer"


async def add(reader: InboxClient, services: PushServices, *channels: str) -> list[str]:
    """Register the device of each channel; returns their ids."""
    answers = [await reader.add_device(channel, services.token(channel)) for channel in channels]
    return [answer.json["id"] for answer in answers]


@pytest.mark.parametrize("channel", SERVICES)
async def test_a_device_has_the_title_the_body_the_url_and_a_stable_id(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    (device_id,) = await add(subscriber, services, channel)

    await app.notify([subscriber.account], title="Prices", body="They “fall”", url=URL)
    (shown,) = await services.got(channel, 1)
    await until_delivered(app.server)

    (number,) = await subscriber.ids()
    assert (shown.title, shown.body, shown.url) == ("Prices", "They “fall”", URL)
    assert shown.message_id == f"{device_id}.{number}"
    assert len(services.shown(channel)) == 1


async def test_every_device_of_the_account_gets_one_push(
    app: App, subscriber: InboxClient, services: PushServices
) -> None:
    await add(subscriber, services, *SERVICES)
    await subscriber.add_device("log")

    with capture_logs() as logs:
        await app.notify([subscriber.account], title="Prices")
        await until_delivered(app.server)

    assert [[shown.title for shown in services.shown(channel)] for channel in SERVICES] == [["Prices"]] * 4
    (line,) = [line for line in logs if line["event"] == "device_notified"]
    assert (line["title"], line["text"]) == ("Prices", "Body")


@each_row("form", ["object", "string"])
async def test_a_browsers_subscription_is_sent_as_an_object_or_as_its_json(
    app: App, subscriber: InboxClient, services: PushServices, form: str
) -> None:
    text = services.subscription
    address: Any = orjson.loads(text) if form == "object" else text

    device = (await subscriber.add_device("webpush", address)).json
    again = (await subscriber.add_device("WebPush", text)).json
    await app.notify([subscriber.account])

    assert len(await services.got("webpush", 1)) == 1
    assert again == device
    assert (device["channel"], device["address"]) == ("webpush", None)


async def test_address_of_a_device_is_never_shown(subscriber: InboxClient, services: PushServices) -> None:
    await add(subscriber, services, "fcm", "apns", "webpush")

    devices = await subscriber.devices()

    assert [(device["channel"], device["address"]) for device in devices] == [
        ("fcm", None),
        ("apns", None),
        ("webpush", None),
    ]
    assert not any(secret in str(devices) for secret in (FCM_TOKEN, APNS_TOKEN, services.browser.auth))


async def test_spellings_of_a_token_are_one_device(subscriber: InboxClient) -> None:
    first = (await subscriber.add_device("apns", APNS_TOKEN)).json

    assert (await subscriber.add_device("APN", APNS_TOKEN.upper())).json == first

    assert await subscriber.devices() == [first]


@each_row(
    ("channel", "address", "place"),
    [
        ("fcm", "with a space", "#/address"),
        ("apns", "0123", "#/address"),
        ("webpush", {"endpoint": "https://push.example/"}, "#/address"),
        ("webpush", "{", "#/address"),
        ("webpush", None, "#/address"),
        ("fcm", {"token": "a"}, "#/address"),
        ("pigeon", "a", "#/channel"),
    ],
)
async def test_malformed_address_of_a_channel_is_refused(
    subscriber: InboxClient, channel: str, address: Any, place: str
) -> None:
    problem = (await subscriber.add_device(channel, address)).problem(400)

    assert pointers(problem) == [place]


@pytest.mark.parametrize("channel", SERVICES)
async def test_a_dead_token_unregisters_its_device_and_no_other(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    other = await sign_in(app.server, 2)
    await other.subscribe(app.project_id)
    await add(subscriber, services, *SERVICES)
    await subscriber.add_device("log")
    await add(other, services, channel)
    services.next_answer(channel, "dead")

    await app.notify([subscriber.account])
    await until_delivered(app.server)
    await app.notify([subscriber.account, other.account])
    await until_delivered(app.server)

    kept = [name for name in (*SERVICES, "log") if name != channel]
    assert [device["channel"] for device in await subscriber.devices()] == kept
    assert [device["channel"] for device in await other.devices()] == [channel]
    assert {name: len(services.shown(name)) for name in SERVICES} == dict.fromkeys(SERVICES, 2)


@pytest.mark.parametrize("channel", SERVICES)
async def test_a_failed_attempt_is_repeated_by_the_clock_under_its_id(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    await add(subscriber, services, channel)
    services.next_answer(channel, "failing")

    await app.notify([subscriber.account])
    await services.got(channel, 1)
    assert len(services.shown(channel)) == 1
    await until_tried(app.server, 1)
    app.server.clock.advance(60)
    first, second = await services.got(channel, 2)
    await until_delivered(app.server)

    assert first == second
    assert len(await subscriber.devices()) == 1


@pytest.mark.parametrize("channel", ["fcm", "apns", "webpush"])
async def test_too_large_push_is_given_up_and_the_device_stays(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    await add(subscriber, services, channel)
    services.next_answer(channel, "too large")

    await app.notify([subscriber.account], title="too large")
    await until_delivered(app.server)
    await app.notify([subscriber.account], title="small")
    await until_delivered(app.server)

    assert [shown.title for shown in services.shown(channel)] == ["too large", "small"]
    assert len(await subscriber.devices()) == 1
    assert look(app.server, "SELECT attempts, next_attempt_at_ms FROM outbox") == [(1, None)]


@pytest.mark.parametrize("slow", ["fcm", "apns"])
async def test_a_provider_that_hangs_delays_no_other(
    app: App, subscriber: InboxClient, services: PushServices, slow: str
) -> None:
    fast = [channel for channel in SERVICES if channel != slow]
    many = [await sign_in(app.server, number) for number in range(2, 8)]
    services.fcm.otherwise = fcm_service.hang if slow == "fcm" else fcm_service.taken
    services.apns.otherwise = apns_service.hang if slow == "apns" else apns_service.taken
    for reader in many:
        await reader.subscribe(app.project_id)
        for number in range(15):
            await reader.add_device(slow, f"{number:02d}" * 32)
    await add(subscriber, services, *fast)

    await app.notify([reader.account for reader in many])
    await services.got(slow, 60)
    await app.notify([subscriber.account], title="fast")
    for channel in fast:
        (shown,) = await services.got(channel, 1, within_seconds=9)
        assert shown.title == "fast"

    async def only_the_slow_ones_are_left() -> bool:
        return look(app.server, "SELECT count(*), max(attempts) FROM outbox") == [(90, 0)]

    await eventually(only_the_slow_ones_are_left)
    services.fcm.released.set()
    services.apns.otherwise = apns_service.taken
    for connection in services.apns.connections:
        connection.abort()


async def test_devices_of_many_accounts_are_all_reached(
    app: App, services: PushServices, connected: PushClient
) -> None:
    readers = [await sign_in(app.server, number) for number in range(1, 11)]
    for number, reader in enumerate(readers):
        await reader.subscribe(app.project_id)
        await reader.add_device("fcm", f"token-{number}")
        await reader.add_device("apns", f"{number:064x}")

    await asyncio.gather(*(app.notify([reader.account for reader in readers]) for _ in range(3)))
    await until_delivered(connected.server)

    for channel in ("fcm", "apns"):
        ids = [shown.message_id for shown in services.shown(channel)]
        assert len(ids) == len(set(ids)) == 30


async def test_queued_pushes_are_deleted_with_their_device(
    app: App, subscriber: InboxClient, services: PushServices
) -> None:
    removed, _ = await add(subscriber, services, "fcm", "apns")
    services.fcm.otherwise = fcm_service.refusal("UNAVAILABLE", Retry_After="300")
    services.apns.otherwise = apns_service.refusal("ServiceUnavailable", retry_after="300")
    await app.notify([subscriber.account])

    async def both_were_asked_to_wait() -> bool:
        return look(app.server, "SELECT attempts FROM outbox") == [(1,), (1,)]

    await eventually(both_were_asked_to_wait)
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
