"""Devices of an account, and that what belongs to one account is nobody else's."""

import asyncio
from pathlib import Path
from typing import Any

import orjson

from tests.support.asking import ask, pointers, until_delivered
from tests.support.inbox_client import InboxClient, open_stream, sign_in
from tests.support.project import App, look
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import open_receiver

URL = "https://device.example/hook?a=b"


async def test_a_webhook_is_a_device(inbox: InboxClient) -> None:
    device = (await inbox.add_device("webhook", URL)).json

    assert device == {
        "id": device["id"],
        "channel": "webhook",
        "address": URL,
        "created_at": "2027-01-15T08:00:00.000Z",
    }
    assert await inbox.devices() == [device]


@each_row("fields", [{"channel": "log"}, {"channel": "log", "address": None}])
async def test_the_log_is_a_device_without_an_address(inbox: InboxClient, fields: Any) -> None:
    device = (await inbox.ask("POST", "/devices", fields)).json

    assert (device["channel"], device["address"]) == ("log", None)
    assert look(inbox.server, "SELECT address FROM devices") == [("log:",)]


async def test_a_device_is_registered_once(inbox: InboxClient) -> None:
    first = (await inbox.add_device("webhook", URL)).json
    inbox.server.clock.advance(60)

    answers = await asyncio.gather(*(inbox.add_device("webhook", URL) for _ in range(10)))
    other = (await inbox.add_device("webhook", f"{URL}c")).json

    assert all(answer.json == first for answer in answers)
    assert await inbox.devices() == [first, other]


@each_row(
    ("fields", "places"),
    [
        ({}, ["#/channel"]),
        ({"channel": "pigeon", "address": URL}, ["#/channel"]),
        ({"channel": None, "address": 1}, ["#/channel", "#/address"]),
        ({"channel": "webhook"}, ["#/address"]),
        ({"channel": "webhook", "address": URL + "x" * 4_096}, ["#/address"]),
        ({"channel": "webhook", "address": ""}, ["#/address"]),
        ({"channel": "webhook", "address": "log:inbox"}, ["#/address"]),
        ({"channel": "log", "address": "anything"}, ["#/address"]),
    ],
)
async def test_malformed_device_is_refused(inbox: InboxClient, fields: Any, places: list[str]) -> None:
    problem = (await inbox.ask("POST", "/devices", fields)).problem(400)

    assert pointers(problem) == places
    if fields.get("channel") == "pigeon":
        assert all(channel in problem["errors"][0]["detail"] for channel in ("webhook", "log"))


async def test_account_has_a_limited_number_of_devices(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_devices=2) as server:
        inbox, other = await sign_in(server), await sign_in(server, 2)

        answers = await asyncio.gather(*(inbox.add_device("webhook", f"{URL}{n}") for n in range(5)))

        assert sorted(answer.status for answer in answers) == [200, 200, 409, 409, 409]
        (await inbox.add_device("log")).problem(409)
        kept = await inbox.devices()
        assert (await inbox.add_device("webhook", kept[0]["address"])).json == kept[0]
        assert (await other.add_device("log")).status == 200
        await inbox.ask("DELETE", f"/devices/{kept[0]['id']}")
        assert (await inbox.add_device("log")).status == 200


async def test_a_device_is_deleted_once(inbox: InboxClient) -> None:
    device_id = (await inbox.add_device("log")).json["id"]

    assert (await inbox.ask("DELETE", f"/devices/{device_id}")).json == {"success": True}

    (await inbox.ask("DELETE", f"/devices/{device_id}")).problem(404)
    assert await inbox.devices() == []


@each_row("device_id", ["none", "a" * 65, "%00", "%ff"])
async def test_a_device_that_there_is_not_is_404(inbox: InboxClient, device_id: str) -> None:
    (await inbox.ask("DELETE", f"/devices/{device_id}")).problem(404)


async def test_device_gets_notifications_until_it_is_deleted(app: App, subscriber: InboxClient) -> None:
    async with open_receiver() as receiver:
        device = (await subscriber.add_device("webhook", receiver.url())).json
        await app.notify([subscriber.account], title="first")
        await receiver.got(1)
        await subscriber.ask("DELETE", f"/devices/{device['id']}")
        await app.notify([subscriber.account], title="second")
        await until_delivered(app.server)

        (request,) = receiver.requests

    notice = orjson.loads(request.body)
    (shown,) = [one for one in (await subscriber.page())["notifications"] if one["title"] == "first"]
    assert (notice["id"], notice["title"], notice["account"]) == (shown["id"], "first", subscriber.account)


ROUTES = [
    ("POST", "/inbox/logout"),
    ("GET", "/inbox/subscriptions"),
    ("PUT", "/inbox/subscriptions/app"),
    ("DELETE", "/inbox/subscriptions/app"),
    ("GET", "/inbox/notifications"),
    ("POST", "/inbox/notifications/read"),
    ("GET", "/inbox/stream"),
    ("GET", "/inbox/devices"),
    ("POST", "/inbox/devices"),
    ("DELETE", "/inbox/devices/x"),
]


@each_row(("method", "path"), ROUTES)
async def test_every_request_without_a_token_is_401(server: RunningServer, method: str, path: str) -> None:
    answer = await ask(server, method, path)

    answer.problem(401)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@each_row(("method", "path"), ROUTES)
async def test_a_projects_secret_opens_no_inbox(app: App, method: str, path: str) -> None:
    (await app.ask(method, path)).problem(401)


async def test_notifications_are_seen_and_marked_by_their_account_only(
    app: App, subscriber: InboxClient, other_inbox: InboxClient
) -> None:
    await other_inbox.subscribe(app.project_id)
    await app.notify([subscriber.account], title="for the first")
    await app.notify([other_inbox.account], title="for the second")
    await app.notify([subscriber.account, other_inbox.account], title="for both")

    assert await subscriber.titles() == ["for both", "for the first"]
    assert await other_inbox.titles() == ["for both", "for the second"]
    assert (await other_inbox.mark(await subscriber.ids())).json == {"read": 1}
    assert await subscriber.titles("?unread=true") == ["for both", "for the first"]
    assert await other_inbox.titles("?unread=true") == ["for the second"]
    assert look(app.server, "SELECT sum(read) FROM daily_figures") == [(1,)]


async def test_cursors_of_others_lead_to_nothing_of_theirs(
    app: App, subscriber: InboxClient, other_inbox: InboxClient
) -> None:
    for title in ("one", "two", "three"):
        await app.notify([subscriber.account], title=title)
    page = await subscriber.page("?limit=1")

    for cursor in (page["next"], page["latest"]):
        assert await other_inbox.titles(f"?after={cursor}") == []


async def test_subscriptions_are_changed_by_their_account_only(
    app: App, subscriber: InboxClient, other_inbox: InboxClient
) -> None:
    (await other_inbox.unsubscribe(app.project_id)).problem(404)

    assert (await other_inbox.overview())["subscriptions"] == []
    assert len((await subscriber.overview())["subscriptions"]) == 1


async def test_devices_are_listed_and_deleted_by_their_account_only(
    inbox: InboxClient, other_inbox: InboxClient
) -> None:
    device_id = (await inbox.add_device("webhook", "https://device.example/")).json["id"]

    assert await other_inbox.devices() == []
    (await other_inbox.ask("DELETE", f"/devices/{device_id}")).problem(404)
    assert [device["id"] for device in await inbox.devices()] == [device_id]


async def test_two_accounts_may_have_one_address(inbox: InboxClient, other_inbox: InboxClient) -> None:
    one = (await inbox.add_device("webhook", "https://device.example/")).json
    other = (await other_inbox.add_device("webhook", "https://device.example/")).json

    assert one["id"] != other["id"]


async def test_a_stream_tells_of_its_own_account_only(
    app: App, subscriber: InboxClient, other_inbox: InboxClient
) -> None:
    await other_inbox.subscribe(app.project_id)
    async with open_stream(subscriber) as stream, open_stream(other_inbox) as other_stream:
        await app.notify([subscriber.account], title="for the first")
        await app.notify([other_inbox.account], title="for the second")
        await app.notify([subscriber.account, other_inbox.account], title="for both")

        assert await stream.titles(2) == ["for the first", "for both"]
        assert await other_stream.titles(2) == ["for the second", "for both"]
