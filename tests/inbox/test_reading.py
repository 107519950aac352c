"""Reading an inbox: pages, cursors and filters."""

from tests.inbox.sending import newest_first, send, titles_from
from tests.support.inbox_client import InboxClient
from tests.support.problems import pointers
from tests.support.project import OFFERS, App, create_app
from tests.support.rows import each_row
from tests.support.server import RunningServer

NOW = "2027-01-15T08:00:00.000Z"


async def follow(reader: InboxClient, cursor: str | None, limit: int) -> list[str]:
    """The titles of all pages from this cursor on."""
    titles = []
    while cursor is not None:
        page = await reader.page(f"?after={cursor}&limit={limit}")
        titles += [notification["title"] for notification in page["notifications"]]
        cursor = page["next"]
    return titles


async def test_notification_is_listed_as_it_was_sent(app: App, subscriber: InboxClient) -> None:
    await app.notify(
        [subscriber.account],
        type=OFFERS,
        title="Títle 𝔘",
        body="Body\nof two lines",
        url="https://a.example/b",
    )

    page = await subscriber.page()

    (notification,) = page["notifications"]
    assert notification == {
        "id": notification["id"],
        "project_id": app.project_id,
        "project_name": "App",
        "type": OFFERS,
        "title": "Títle 𝔘",
        "body": "Body of two lines",
        "url": "https://a.example/b",
        "sent_at": NOW,
        "read": False,
        "read_by": None,
    }
    assert isinstance(notification["id"], str)
    assert page["next"] is None


async def test_an_empty_inbox_has_a_cursor_for_what_comes(app: App, subscriber: InboxClient) -> None:
    empty = await subscriber.page()
    await send(app, subscriber, "n1")

    since = await subscriber.page(f"?after={empty['latest']}")

    assert (empty["notifications"], empty["next"]) == ([], None)
    assert [notification["title"] for notification in since["notifications"]] == ["n1"]
    assert await subscriber.titles(f"?after={since['latest']}") == []


async def test_pages_lose_and_repeat_nothing_while_others_arrive(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 7))
    titles, query, arriving, latest = [], "?limit=2", 8, None

    while True:
        page = await subscriber.page(query)
        latest = latest or page["latest"]
        assert page["latest"] == latest
        titles += [notification["title"] for notification in page["notifications"]]
        if page["next"] is None:
            break
        await send(app, subscriber, f"n{arriving}")
        arriving += 1
        query = f"?limit=2&after={page['next']}"

    assert titles == newest_first(1, 7)
    assert await follow(subscriber, latest, limit=2) == newest_first(8, arriving - 1)


async def test_more_than_a_page_since_a_cursor_is_led_through_to_its_end(
    app: App, subscriber: InboxClient
) -> None:
    await send(app, subscriber, "n1", "n2")
    latest = (await subscriber.page())["latest"]
    await send(app, subscriber, *titles_from(3, 9))

    first = await subscriber.page(f"?after={latest}&limit=3")
    await send(app, subscriber, "n10")

    assert [notification["title"] for notification in first["notifications"]] == ["n9", "n8", "n7"]
    assert await follow(subscriber, first["next"], limit=3) == newest_first(3, 6)
    assert await follow(subscriber, first["latest"], limit=3) == ["n10"]


async def test_a_page_that_is_just_full_is_the_last(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, "n1", "n2", "n3")

    assert (await subscriber.page("?limit=3"))["next"] is None
    assert (await subscriber.page("?limit=2"))["next"] is not None


@each_row(("query", "count"), [("", 50), ("?limit=100", 100), ("?limit=1", 1)])
async def test_a_page_has_fifty_or_as_many_as_are_wanted(
    app: App, subscriber: InboxClient, query: str, count: int
) -> None:
    await send(app, subscriber, *titles_from(1, 101))

    assert await subscriber.titles(query) == newest_first(1, 101)[:count]


@each_row(
    ("query", "faulty"),
    [
        ("limit=0", ["limit"]), ("limit=101", ["limit"]), ("limit=", ["limit"]), ("limit=-1", ["limit"]),
        ("limit=1.0", ["limit"]), ("limit=%D9%A1", ["limit"]), ("unread=", ["unread"]),
        ("unread=1", ["unread"]), ("unread=True", ["unread"]), ("after=", ["after"]),
        ("after=1", ["after"]), ("after=1.2", ["after"]),
        ("after=1.2.3.4", ["after"]), ("after=-1..1", ["after"]), ("after=1..%00", ["after"]),
        ("after=1234567890123456789..1", ["after"]), ("after=%ff", ["after"]),
        ("project_id=", ["project_id"]), ("project_id=A", ["project_id"]), ("project_id=%ff", ["project_id"]),
        ("limit=x&after=x&unread=x&project_id=X", ["project_id", "unread", "after", "limit"]),
    ],
)  # fmt: skip
async def test_a_query_that_cannot_be_read_is_refused(
    subscriber: InboxClient, query: str, faulty: list[str]
) -> None:
    answer = await subscriber.ask("GET", f"/notifications?{query}")

    assert pointers(answer.problem(400)) == [f"#/{name}" for name in faulty]


@each_row("cursor", ["999999999999999999..999999999999999999", "0.0.0", "5.1.0", "000..000"])
async def test_an_invented_cursor_is_harmless(app: App, subscriber: InboxClient, cursor: str) -> None:
    await send(app, subscriber, "n1")

    assert (await subscriber.ask("GET", f"/notifications?after={cursor}")).status == 200


async def test_a_page_may_be_of_one_project(server: RunningServer, app: App, subscriber: InboxClient) -> None:
    other = await create_app(server, app.operator, "Other", "other")
    await subscriber.subscribe("other")
    await send(app, subscriber, "n1")
    await send(other, subscriber, "n2")
    await send(app, subscriber, "n3")

    assert await subscriber.titles() == ["n3", "n2", "n1"]
    assert await subscriber.titles(f"?project_id={app.project_id}") == ["n3", "n1"]
    assert await subscriber.titles("?project_id=other") == ["n2"]
    assert await subscriber.titles("?project_id=nobody") == []


async def test_a_page_may_be_of_what_is_unread_or_of_what_is_read(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, "n1", "n2")
    await app.mark_all()
    await send(app, subscriber, "n3", "n4")
    await subscriber.mark((await subscriber.ids())[:1])

    assert await subscriber.titles("?unread=true") == ["n3"]
    assert await subscriber.titles("?unread=false") == ["n4", "n2", "n1"]
    assert await subscriber.titles() == ["n4", "n3", "n2", "n1"]


async def test_filters_and_pages_go_together(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 9))
    await subscriber.mark((await subscriber.ids())[::2])

    first = await subscriber.page("?unread=true&limit=3")
    second = await subscriber.page(f"?unread=true&limit=3&after={first['next']}")

    shown = [notification["title"] for page in (first, second) for notification in page["notifications"]]
    assert shown == ["n8", "n6", "n4", "n2"]
    assert second["next"] is None


async def test_reader_and_time_of_reading_are_listed(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, "n1", "n2", "n3")
    ids = await subscriber.ids()
    app.server.clock.advance(60)
    await subscriber.mark(ids[:1])
    await app.mark_all()
    await send(app, subscriber, "n4")

    shown = (await subscriber.page())["notifications"]

    told = [(one["title"], one["read"], one["read_by"], one.get("read_at")) for one in shown]
    assert told == [
        ("n4", False, None, None),
        ("n3", True, "user", "2027-01-15T08:01:01.500Z"),
        ("n2", True, "bulk", None),
        ("n1", True, "bulk", None),
    ]


async def test_a_deleted_project_shows_and_counts_nothing(
    server: RunningServer, app: App, subscriber: InboxClient
) -> None:
    other = await create_app(server, app.operator, "Other", "other")
    await subscriber.subscribe("other")
    await send(app, subscriber, "n1")
    await send(other, subscriber, "n2")
    await send(app, subscriber, "n3")
    ids = await subscriber.ids()

    await app.operator.projects.delete(app.project_id)

    assert await subscriber.titles("?limit=1") == ["n2"]
    assert await subscriber.titles() == ["n2"]
    assert (await subscriber.mark(ids)).json == {"read": 1}
