"""Subscriptions of an account: its projects and types, and the number of its unread notifications."""

from typing import Any

from tests.support.asking import pointers
from tests.support.inbox_client import InboxClient
from tests.support.project import NEWS, OFFERS, App, create_app
from tests.support.rows import each_row
from tests.support.server import RunningServer

NOW = "2027-01-15T08:00:00.000Z"
AVAILABLE = [{"id": NEWS, "name": "News"}, {"id": OFFERS, "name": "Offers"}]


@each_row("body", [None, b"{}", b'{"notification_types":null}'])
async def test_without_types_an_account_receives_all(app: App, inbox: InboxClient, body: Any) -> None:
    answer = await inbox.ask("PUT", f"/subscriptions/{app.project_id}", body)

    assert answer.json == {
        "project_id": app.project_id,
        "account": inbox.account,
        "notification_types": [NEWS, OFFERS],
    }
    assert await inbox.overview() == {
        "subscriptions": [
            {
                "project_id": app.project_id,
                "project_name": "App",
                "notification_types": [NEWS, OFFERS],
                "available_types": AVAILABLE,
                "unread": 0,
                "subscribed_at": NOW,
            }
        ],
        "unsubscribed": [],
    }
    assert (await app.listing()).json == [inbox.account]


async def test_types_may_be_chosen_and_chosen_anew(app: App, inbox: InboxClient) -> None:
    await inbox.subscribe(app.project_id)
    app.server.clock.advance(60)

    for wanted, stored in (([], []), ([OFFERS], [OFFERS]), ([OFFERS, NEWS, OFFERS], [NEWS, OFFERS])):
        answer = await inbox.subscribe(app.project_id, wanted)
        assert answer.json["notification_types"] == stored
        (subscription,) = (await inbox.overview())["subscriptions"]
        assert (subscription["notification_types"], subscription["available_types"]) == (stored, AVAILABLE)
        assert subscription["subscribed_at"] == NOW


async def test_malformed_and_unknown_types_are_all_named(app: App, inbox: InboxClient) -> None:
    faults: list[tuple[Any, list[str]]] = [
        ("news", [""]),
        ({}, [""]),
        ([NEWS] * 257, [""]),
        ([1, NEWS, None], ["/0", "/2"]),
        ([NEWS, "nope", OFFERS, "", "\u0000"], ["/1", "/3", "/4"]),
    ]

    for types, places in faults:
        problem = (await inbox.subscribe(app.project_id, types)).problem(400)
        assert pointers(problem) == [f"#/notification_types{place}" for place in places]
    misspelled = await inbox.ask("PUT", f"/subscriptions/{app.project_id}", {"notificationTypes": [NEWS]})
    assert pointers(misspelled.problem(400)) == ["#/notificationTypes"]
    assert await inbox.overview() == {"subscriptions": [], "unsubscribed": []}


async def test_a_project_that_there_is_not_cannot_be_received(inbox: InboxClient) -> None:
    for project_id in ("none", "0" * 32, "a" * 65, "%ff", "%00"):
        (await inbox.subscribe(project_id)).problem(404)
        (await inbox.unsubscribe(project_id)).problem(404)


async def test_an_account_leaves_once(app: App, subscriber: InboxClient) -> None:
    await app.notify([subscriber.account])

    assert (await subscriber.unsubscribe(app.project_id)).json == {"success": True}
    problem = (await subscriber.unsubscribe(app.project_id)).problem(404)
    assert problem["type"].endswith("subscription-not-found")
    assert (await app.notify([subscriber.account])).json["not_found"] == [subscriber.account]
    left = {"project_id": app.project_id, "project_name": "App", "unread": 1}
    assert await subscriber.overview() == {"subscriptions": [], "unsubscribed": [left]}
    await subscriber.mark(await subscriber.ids())
    assert await subscriber.overview() == {"subscriptions": [], "unsubscribed": []}


async def test_unread_is_counted_by_project(server: RunningServer, app: App, subscriber: InboxClient) -> None:
    other = await create_app(server, app.operator, "Other")
    await subscriber.subscribe(other.project_id)
    for title in ("one", "two", "three"):
        await app.notify([subscriber.account], title=title)
    await other.notify([subscriber.account])

    async def unread() -> list[tuple[str, int]]:
        subscriptions = (await subscriber.overview())["subscriptions"]
        return [(one["project_name"], one["unread"]) for one in subscriptions]

    await subscriber.mark((await subscriber.ids(f"?project_id={app.project_id}"))[:1])
    assert await unread() == [("App", 2), ("Other", 1)]
    assert (await app.mark_all()).json == {"marked": 2}
    assert await unread() == [("App", 0), ("Other", 1)]


async def test_a_deleted_project_disappears(app: App, subscriber: InboxClient) -> None:
    await app.notify([subscriber.account])
    await app.operator.projects.delete(app.project_id)
    assert await subscriber.overview() == {"subscriptions": [], "unsubscribed": []}
    assert await subscriber.ids() == []
    (await subscriber.subscribe(app.project_id)).problem(404)


async def test_the_spelling_that_subscribed_first_stays_listed(app: App, inbox: InboxClient) -> None:
    await app.subscribe(inbox.account.lower().replace("eip155:1:", "eip155:10:"))
    await inbox.subscribe(app.project_id)
    assert (await app.listing()).json == [inbox.account.replace("eip155:1:", "eip155:10:")]
