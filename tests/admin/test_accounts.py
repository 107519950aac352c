"""One account as the operator sees it: why it did not get a notification, and what its inbox shows."""

from typing import Any

import pytest

from tests.support.admin_client import ETHEREUM, AdminClient
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, status

NOW = "2027-01-15T08:00:00.000Z"


@pytest.fixture
async def app(admin: AdminClient) -> str:
    """A project that may send two notifications an hour, two at once; returns its secret."""
    secret = await admin.create("app", "news", "deals")
    await admin.put("/admin/projects/app/account-limit", {"per_hour": 2, "burst": 2})
    return secret


@pytest.fixture
async def reader(admin: AdminClient, app: str) -> InboxClient:
    """An account that has chosen news."""
    reader = await sign_in(admin.server)
    await reader.subscribe("app", ["news"])
    return reader


async def view(admin: AdminClient, account: str, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = (await admin.get(f"/admin/accounts/{account}{query}")).json
    return found


async def test_an_account_is_shown_by_project(admin: AdminClient, app: str, reader: InboxClient) -> None:
    for title in ("news", "news", "deals", "news"):
        await admin.notify("app", app, title, reader.account)
        admin.clock.advance(60)
    await reader.mark(["1"])

    shown = await view(admin, reader.account)

    at = [f"2027-01-15T08:0{minute}:00.000Z" for minute in range(5)]
    entries = [
        (4, "news", "rate_limited", at[3], None, "2027-01-15T08:30:00.000Z"),
        (3, "deals", "type_not_subscribed", at[2], None, None),
        (2, "news", "sent", at[1], None, None),
        (1, "news", "read", at[0], at[4], None),
    ]
    names = ("number", "type", "outcome", "at", "read_at", "limited_until")
    subscription = {"account": reader.account, "notification_types": ["news"], "subscribed_at": NOW}
    bucket = {"tokens": 0, "full_at": "2027-01-15T09:00:00.000Z", "next_token_at": "2027-01-15T08:30:00.000Z"}
    project = {
        "project_id": "app", "name": "App", "subscribed": True, "subscription": subscription,
        "account_limit": {"per_hour": 2, "burst": 2, "own": True}, "bucket": bucket,
        "notifications": [{**dict(zip(names, entry, strict=True)), "title": "Title"} for entry in entries],
    }  # fmt: skip
    assert shown == {"account": reader.account, "projects": [project], "devices": [], "deliveries": []}


async def test_one_project_is_shown_when_asked_for(admin: AdminClient, app: str, reader: InboxClient) -> None:
    await admin.create("other", "news")
    await reader.subscribe("other")
    every = (await view(admin, reader.account))["projects"]
    (one,) = (await view(admin, reader.account, "?project_id=other"))["projects"]
    assert [project["project_id"] for project in every] == ["app", "other"]
    assert one == every[1]
    await admin.notify("app", app, "news", reader.account)
    await reader.unsubscribe("app")
    assert [each["project_id"] for each in (await view(admin, reader.account))["projects"]] == ["other"]
    (project,) = (await view(admin, reader.account, "?project_id=app"))["projects"]
    assert (project["subscribed"], project["subscription"]) == (False, None)
    assert [one["outcome"] for one in project["notifications"]] == ["sent"]


async def test_an_unknown_account_has_nothing(admin: AdminClient, app: str) -> None:
    nothing = {"account": ETHEREUM, "projects": [], "devices": [], "deliveries": []}
    assert await view(admin, ETHEREUM) == nothing
    (project,) = (await view(admin, ETHEREUM, "?project_id=app"))["projects"]
    assert (project["subscribed"], project["bucket"]["tokens"]) == (False, 2)
    inbox = f"/admin/accounts/{ETHEREUM}/inbox"
    assert (await admin.get(inbox)).json["notifications"] == []
    assert (await admin.post(f"{inbox}/read", {"ids": ["1"]})).json == {"read": 0}
    for path, code in (("nobody", 400), ("nobody/inbox", 400), ("test:chain:1?project_id=none", 404)):
        (await admin.get(f"/admin/accounts/{path}")).problem(code)


async def test_messages_to_its_devices_wait_or_have_failed_with_the_reason(
    admin: AdminClient, app: str, reader: InboxClient, receiver: WebhookReceiver
) -> None:
    receiver.script += [status(500), status(410)]
    await reader.add_device("webhook", receiver.url("/secret-address"))
    await admin.notify("app", app, "news", reader.account)

    async def tried() -> bool:
        (delivery,) = (await view(admin, reader.account))["deliveries"]
        return bool(delivery["attempts"])

    await eventually(tried)
    answer = await admin.get(f"/admin/accounts/{reader.account}")
    other = await admin.create("other", "news")

    (device,), (delivery,) = answer.json["devices"], answer.json["deliveries"]
    assert (device["state"], device["queued"]) == ("queued", 1)
    assert delivery.pop("next_attempt_at") > NOW
    assert delivery == {
        "device_id": device["id"], "channel": "webhook", "project_id": "app", "state": "waiting",
        "attempts": 1, "created_at": NOW, "error": "the receiver answered 500",
    }  # fmt: skip
    assert not [each for each in (b"secret-address", other.encode()) if each in answer.body]
    assert (await view(admin, reader.account, "?project_id=other"))["deliveries"] == []


@pytest.mark.own_server
async def test_its_inbox_and_marks_of_the_operator(admin: AdminClient, app: str, reader: InboxClient) -> None:
    await admin.create("other", "news")
    for _ in range(2):
        await admin.notify("app", app, "news", reader.account)
    path = f"/admin/accounts/{reader.account}/inbox"

    assert (await admin.get(path)).json == await reader.page()
    first = (await admin.get(f"{path}?limit=1")).json
    second = (await admin.get(f"{path}?limit=1&after={first['next']}")).json
    assert [one["id"] for one in first["notifications"] + second["notifications"]] == ["2", "1"]
    assert (await admin.get(f"{path}?project_id=other")).json["notifications"] == []
    for query in ("limit=101", "after=x"):
        (await admin.get(f"{path}?{query}")).problem(400)
    marked = [(await admin.post(f"{path}/read", {"ids": ["1", "7", "x"]})).json for _ in range(2)]

    assert marked == [{"read": 1}, {"read": 0}]
    assert (await reader.mark(["1"])).json == {"read": 0}
    other, one = (await reader.page())["notifications"]
    assert (one["read"], one["read_by"], "read_at" in one) == (True, "bulk", False)
    assert (other["read"], await reader.ids("?unread=true")) == (False, ["2"])

    assert (await reader.overview())["subscriptions"][0]["unread"] == 1
    totals = (await admin.get("/admin/projects/app/analytics")).json["total"]
    assert totals == {"sent": 2, "read": 0, "bulk_marked": 1, "read_rate": 0.0}
    shown = (await admin.get("/admin/projects/app/notifications/1")).json
    (account,) = shown["accounts"]
    assert shown["figures"]["bulk_marked"] == 1
    assert (account["outcome"], account["read_at"]) == ("bulk_marked", None)


async def test_a_lapsed_one_was_not_marked_in_bulk(admin: AdminClient, app: str, reader: InboxClient) -> None:
    await admin.notify("app", app, "news", reader.account, notification_id="x")
    admin.clock.advance(365 * 86_400)
    await eventually(lambda: not admin.server.rows("SELECT id FROM sendings"))
    (shown,) = (await admin.get("/admin/projects/app/notifications")).json["notifications"]
    assert (shown["figures"]["sent"], shown["figures"]["bulk_marked"]) == (1, 0)
