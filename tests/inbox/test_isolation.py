"""What belongs to one account is nobody else's."""

from tests.support.asking import ask
from tests.support.event_reader import open_stream
from tests.support.inbox_client import InboxClient
from tests.support.project import App, look
from tests.support.rows import each_row
from tests.support.server import RunningServer

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


async def test_an_inbox_token_publishes_nothing(app: App, subscriber: InboxClient) -> None:
    for name, path in app.paths.items():
        method = "GET" if name == "listing" else "POST"
        (await ask(app.server, method, path, headers=subscriber.headers)).problem(401)


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


async def test_one_address_may_be_the_device_of_two_accounts(
    inbox: InboxClient, other_inbox: InboxClient
) -> None:
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
