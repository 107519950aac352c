"""Devices of an account, and that what belongs to one account is nobody else's."""

import asyncio
from pathlib import Path
from typing import Any

import orjson

from tests.support.asking import ask, pointers, until_delivered
from tests.support.inbox_client import InboxClient, open_stream, sign_in
from tests.support.project import App, look
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver

URL = "https://device.example/hook?a=b"


async def test_a_device_is_registered_and_deleted_once(inbox: InboxClient) -> None:
    device = (await inbox.add_device("webhook", URL)).json
    assert device == {
        "id": device["id"],
        "channel": "webhook",
        "address": URL,
        "created_at": "2027-01-15T08:00:00.000Z",
    }
    inbox.server.clock.advance(60)
    answers = await asyncio.gather(*(inbox.add_device("webhook", URL) for _ in range(10)))
    other = (await inbox.add_device("webhook", f"{URL}c")).json
    assert all(answer.json == device for answer in answers)
    assert await inbox.devices() == [device, other]

    assert (await inbox.ask("DELETE", f"/devices/{device['id']}")).json == {"success": True}
    for unknown in (device["id"], "none", "a" * 65, "%00", "%ff"):
        (await inbox.ask("DELETE", f"/devices/{unknown}")).problem(404)
    assert await inbox.devices() == [other]


async def test_the_log_is_a_device_without_an_address(inbox: InboxClient) -> None:
    for fields in ({"channel": "log"}, {"channel": "log", "address": None}):
        device = (await inbox.ask("POST", "/devices", fields)).json
        assert (device["channel"], device["address"]) == ("log", None)
    assert look(inbox.server, "SELECT address FROM devices") == [("log:",)]


async def test_malformed_device_is_refused(inbox: InboxClient) -> None:
    faults: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["#/channel"]),
        ({"channel": "pigeon", "address": URL}, ["#/channel"]),
        ({"channel": None, "address": 1}, ["#/channel", "#/address"]),
        ({"channel": "webhook"}, ["#/address"]),
        *(
            ({"channel": "webhook", "address": each}, ["#/address"])
            for each in (URL + "x" * 4_096, "", "log:inbox")
        ),
        ({"channel": "log", "address": "anything"}, ["#/address"]),
        ({"channel": "log", "Address": "anything"}, ["#/Address"]),
    ]

    for fields, places in faults:
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


async def test_notices_until_deletion(app: App, subscriber: InboxClient, receiver: WebhookReceiver) -> None:
    device = (await subscriber.add_device("webhook", receiver.url())).json
    await app.notify([subscriber.account], title="first")
    await receiver.got(1)
    await subscriber.ask("DELETE", f"/devices/{device['id']}")
    await app.notify([subscriber.account], title="second")
    await until_delivered(app.server)

    (request,) = receiver.requests
    notice = orjson.loads(request.body)
    _, first = await subscriber.ids()
    assert (notice["id"], notice["title"], notice["account"]) == (first, "first", subscriber.account)


async def test_every_request_without_a_token_or_with_a_projects_secret_is_401(app: App) -> None:
    for method, path in (
        ("POST", "logout"), ("GET", "subscriptions"), ("PUT", "subscriptions/app"),
        ("DELETE", "subscriptions/app"), ("GET", "notifications"), ("POST", "notifications/read"),
        ("GET", "stream"), ("GET", "devices"), ("POST", "devices"), ("DELETE", "devices/x"),
    ):  # fmt: skip
        url = f"/inbox/{path}"
        for answer in (await ask(app.server, method, url), await app.ask(method, url)):
            answer.problem(401)
            assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_notifications_are_private(app: App, subscriber: InboxClient, other_inbox: InboxClient) -> None:
    await other_inbox.subscribe(app.project_id)
    async with open_stream(subscriber) as stream, open_stream(other_inbox) as other_stream:
        await app.notify([subscriber.account], title="for the first")
        await app.notify([other_inbox.account], title="for the second")
        await app.notify([subscriber.account, other_inbox.account], title="for both")

        assert await stream.titles(2) == ["for the first", "for both"]
        assert await other_stream.titles(2) == ["for the second", "for both"]

    assert await subscriber.titles() == ["for both", "for the first"]
    assert await other_inbox.titles() == ["for both", "for the second"]
    assert (await other_inbox.mark(await subscriber.ids())).json == {"read": 1}
    assert await subscriber.titles("?unread=true") == ["for both", "for the first"]
    assert await other_inbox.titles("?unread=true") == ["for the second"]
    assert look(app.server, "SELECT sum(read) FROM daily_figures") == [(1,)]


async def test_other_accounts_are_closed(app: App, subscriber: InboxClient, other_inbox: InboxClient) -> None:
    for title in ("one", "two", "three"):
        await app.notify([subscriber.account], title=title)
    page = await subscriber.page("?limit=1")

    for cursor in (page["next"], page["latest"]):
        assert await other_inbox.titles(f"?after={cursor}") == []
    (await other_inbox.unsubscribe(app.project_id)).problem(404)
    assert (await other_inbox.overview())["subscriptions"] == []
    assert len((await subscriber.overview())["subscriptions"]) == 1


async def test_devices_are_seen_by_their_account_only(inbox: InboxClient, other_inbox: InboxClient) -> None:
    device = (await inbox.add_device("webhook", URL)).json
    assert await other_inbox.devices() == []
    (await other_inbox.ask("DELETE", f"/devices/{device['id']}")).problem(404)
    assert (await other_inbox.add_device("webhook", URL)).json["id"] != device["id"]
    assert await inbox.devices() == [device]
