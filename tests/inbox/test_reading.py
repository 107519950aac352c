"""Reading an inbox: pages, cursors, filters, and waiting for the next notification."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.inbox.conftest import newest_first, send, titles_from
from tests.support.asking import METRICS_TOKEN, Answer, pointers, until_waiting
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import OFFERS, App, create_app, opened_app
from tests.support.rows import each_row
from tests.support.server import RunningServer, reached, running_server, server_process

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


async def test_a_page_that_is_just_full_is_the_last(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, "n1", "n2", "n3")

    assert (await subscriber.page("?limit=3"))["next"] is None
    assert (await subscriber.page("?limit=2"))["next"] is not None


async def test_a_page_has_50_or_as_wanted(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 101))

    for query, count in (("", 50), ("?limit=100", 100), ("?limit=1", 1)):
        assert await subscriber.titles(query) == newest_first(1, 101)[:count]


@each_row(
    ("query", "faulty"),
    [
        ("limit=0", ["limit"]),
        ("limit=101", ["limit"]),
        ("unread=1", ["unread"]),
        ("after=1.2", ["after"]),
        ("after=1234567890123456789..1", ["after"]),
        ("project_id=%ff", ["project_id"]),
        ("limit=x&after=x&unread=x&project_id=X", ["project_id", "unread", "after", "limit"]),
    ],
)
async def test_malformed_query_is_refused(subscriber: InboxClient, query: str, faulty: list[str]) -> None:
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


def begin(reader: InboxClient, query: str = "?wait=20", **headers: str) -> "asyncio.Task[Answer]":
    """A poll that goes on beside the test."""
    return asyncio.create_task(reader.ask("GET", f"/notifications{query}", headers=headers))


def titles(page: Any) -> list[str]:
    return [notification["title"] for notification in page["notifications"]]


@pytest.mark.parametrize(("query", "headers"), [("?wait=20", {}), ("", {"Prefer": "wait=20"})])
@pytest.mark.own_server
async def test_waiting_client_is_woken_at_once(
    app: App, subscriber: InboxClient, query: str, headers: dict[str, str]
) -> None:
    waiting = begin(subscriber, query, **headers)
    await until_waiting(app.server, 1)

    await app.notify([subscriber.account], title="n1")
    answer = await waiting

    assert titles(answer.json) == ["n1"]
    assert answer.headers.get("Preference-Applied") == headers.get("Prefer")
    assert answer.headers["Vary"] == "Prefer"
    await until_waiting(app.server, 0)


async def test_nothing_came_in_time(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_wait=1) as server, opened_app(server) as app:
        inbox = await sign_in(server)
        await inbox.subscribe(app.project_id)
        await app.notify([inbox.account])
        latest = (await inbox.page())["latest"]

        asked = await asyncio.gather(
            begin(inbox, f"?after={latest}&wait=99"),
            begin(inbox, f"?after={latest}", Prefer="wait=99"),
            begin(inbox, "?project_id=nobody&wait=99"),
        )

        assert asked[0].json == asked[1].json == {"notifications": [], "next": None, "latest": latest}
        assert titles(asked[2].json) == []
        assert asked[1].headers["Preference-Applied"] == "wait=1"


async def test_notifications_outside_the_filter_or_before_the_cursor_end_no_wait(
    app: App, subscriber: InboxClient
) -> None:
    await app.notify([subscriber.account], title="n1")
    await subscriber.mark(await subscriber.ids())
    latest = (await subscriber.page())["latest"]

    waiting = [begin(subscriber, f"?wait=20&{rest}") for rest in ("unread=true", f"after={latest}")]
    await until_waiting(app.server, 2)
    await app.notify([subscriber.account], title="n2")

    assert [titles((await each).json) for each in waiting] == [["n2"]] * 2


async def test_notifications_for_other_accounts_do_not_end_the_wait(
    app: App, subscriber: InboxClient, other_inbox: InboxClient
) -> None:
    await other_inbox.subscribe(app.project_id)
    waiting = begin(subscriber)
    await until_waiting(app.server, 1)

    await app.notify([other_inbox.account], title="n1")
    await until_waiting(app.server, 1)
    assert not waiting.done()
    await app.notify([subscriber.account], title="n2")

    assert titles((await waiting).json) == ["n2"]


async def test_all_waiters_are_woken(app: App, subscriber: InboxClient, other_inbox: InboxClient) -> None:
    await other_inbox.subscribe(app.project_id)
    waiting = [begin(reader) for reader in (subscriber, other_inbox) for _ in range(50)]
    await until_waiting(app.server, 100)

    await app.notify([subscriber.account, other_inbox.account], title="n1")

    assert [titles((await answer).json) for answer in waiting] == [["n1"]] * 100


async def test_a_reader_that_goes_from_latest_to_latest_misses_nothing_of_a_burst(
    app: App, subscriber: InboxClient
) -> None:
    wanted = [f"n{number}" for number in range(60)]

    async def send() -> None:
        for title in wanted:
            app.server.clock.advance(0.5)
            await app.notify([subscriber.account], title=title)

    sending, seen, latest = asyncio.create_task(send()), list[str](), "0..0"
    while len(seen) < len(wanted):
        page = (await begin(subscriber, f"?wait=20&limit=100&after={latest}")).json
        seen += reversed(titles(page))
        latest = page["latest"]
    await sending

    assert seen == wanted


async def test_stopping_server_answers_waiting_clients(tmp_path: Path) -> None:
    with server_process(tmp_path / "data", environment={"BRIDGE_METRICS_TOKEN": METRICS_TOKEN}) as process:
        async with reached(process) as server:
            waiting = begin(await sign_in(server))
            await until_waiting(server, 1)

            exit_code = await asyncio.to_thread(process.stop)

            assert (await waiting).json["notifications"] == []
    assert exit_code == 0


async def test_signing_out_ends_the_wait_without_content(app: App, subscriber: InboxClient) -> None:
    waiting = begin(subscriber, "?wait=20")
    await until_waiting(app.server, 1)

    assert (await subscriber.ask("POST", "/logout")).status == 200
    await app.notify([subscriber.account])

    (await waiting).problem(401)


async def test_token_that_expires_during_the_wait_gets_no_content(app: App, subscriber: InboxClient) -> None:
    waiting = begin(subscriber, "?wait=20")
    await until_waiting(app.server, 1)

    app.server.clock.advance(app.server.settings.inbox_token_ttl)
    await app.notify([subscriber.account])

    (await waiting).problem(401)
