"""Reading an inbox: pages, cursors, filters, and waiting for the next notification."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.inbox.conftest import newest_first, send, titles_from
from tests.support.asking import METRICS_TOKEN, Answer, pointers, until_waiting
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import OFFERS, App, create_app, opened_app
from tests.support.server import RunningServer, reached, running_server, server_process

NOW = "2027-01-15T08:00:00.000Z"


def titles(page: Any) -> list[str]:
    return [notification["title"] for notification in page["notifications"]]


async def follow(reader: InboxClient, cursor: str | None, limit: int) -> list[str]:
    """The titles of all pages from this cursor on."""
    found = []
    while cursor is not None:
        page = await reader.page(f"?after={cursor}&limit={limit}")
        found += titles(page)
        cursor = page["next"]
    return found


async def test_notification_is_listed_as_it_was_sent(app: App, subscriber: InboxClient) -> None:
    content = {"type": OFFERS, "title": "Títle 𝔘", "url": "https://a.example/b"}
    await app.notify([subscriber.account], body="Body\nof two lines", **content)

    page = await subscriber.page()

    (notification,) = page["notifications"]
    assert notification == {
        "id": notification["id"],
        "project_id": app.project_id,
        "project_name": "App",
        "body": "Body of two lines",
        "sent_at": NOW,
        "read": False,
        "read_by": None,
        **content,
    }
    assert isinstance(notification["id"], str)
    assert page["next"] is None


async def test_an_empty_inbox_has_a_cursor_for_what_comes(app: App, subscriber: InboxClient) -> None:
    empty = await subscriber.page()
    await send(app, subscriber, "n1")
    since = await subscriber.page(f"?after={empty['latest']}")
    assert (empty["notifications"], empty["next"]) == ([], None)
    assert titles(since) == ["n1"]
    assert await subscriber.titles(f"?after={since['latest']}") == []


async def test_pages_lose_and_repeat_nothing_while_others_arrive(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 7))
    page = await subscriber.page("?limit=2")
    shown, latest, last = titles(page), page["latest"], 7

    while page["next"] is not None:
        last += 1
        await send(app, subscriber, f"n{last}")
        page = await subscriber.page(f"?limit=2&after={page['next']}")
        assert page["latest"] == latest
        shown += titles(page)

    assert shown == newest_first(1, 7)
    assert await follow(subscriber, latest, limit=2) == newest_first(8, last)


async def test_a_page_has_50_or_as_wanted(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 100))
    for query, count in (("", 50), ("?limit=100", 100), ("?limit=99", 99), ("?limit=1", 1)):
        page = await subscriber.page(query)
        assert titles(page) == newest_first(1, 100)[:count]
        assert (page["next"] is None) is (count == 100)


async def test_malformed_queries_and_invented_cursors(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, "n1")
    for query, faulty in (
        ("limit=0", ["limit"]),
        ("limit=101", ["limit"]),
        ("unread=1", ["unread"]),
        ("after=1.2", ["after"]),
        ("after=1234567890123456789..1", ["after"]),
        ("project_id=%ff", ["project_id"]),
        ("limit=1&limit=2&unread=true&unread=true", ["unread", "limit"]),
        ("limit=x&after=x&unread=x&project_id=X", ["project_id", "unread", "after", "limit"]),
    ):
        answer = await subscriber.ask("GET", f"/notifications?{query}")
        assert pointers(answer.problem(400)) == [f"#/{name}" for name in faulty]

    for cursor in ("999999999999999999..999999999999999999", "0.0.0", "5.1.0", "000..000"):
        assert (await subscriber.ask("GET", f"/notifications?after={cursor}")).status == 200


async def test_pages_of_one_project(server: RunningServer, app: App, subscriber: InboxClient) -> None:
    other = await create_app(server, app.operator, "Other", "other")
    await subscriber.subscribe("other")
    for project, title in ((app, "n1"), (other, "n2"), (app, "n3")):
        await send(project, subscriber, title)
    ids = await subscriber.ids()

    assert await subscriber.titles() == ["n3", "n2", "n1"]
    assert await subscriber.titles(f"?project_id={app.project_id}") == ["n3", "n1"]
    assert await subscriber.titles("?project_id=other") == ["n2"]
    assert await subscriber.titles("?project_id=nobody") == []

    await app.operator.projects.delete(app.project_id)
    assert await subscriber.titles("?limit=1") == ["n2"]
    assert await subscriber.titles() == ["n2"]
    assert (await subscriber.mark(ids)).json == {"read": 1}


async def test_a_page_may_be_of_what_is_unread_or_read(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, "n1", "n2", "n3")
    ids = await subscriber.ids()
    app.server.clock.advance(60)
    await subscriber.mark(ids[:1])
    await app.mark_all()
    await send(app, subscriber, "n4")

    shown = (await subscriber.page())["notifications"]

    assert [(one["title"], one["read"], one["read_by"], one.get("read_at")) for one in shown] == [
        ("n4", False, None, None),
        ("n3", True, "user", "2027-01-15T08:01:01.500Z"),
        ("n2", True, "bulk", None),
        ("n1", True, "bulk", None),
    ]
    assert await subscriber.titles("?unread=true") == ["n4"]
    assert await subscriber.titles("?unread=false") == ["n3", "n2", "n1"]


async def test_filters_and_pages_go_together(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 9))
    await subscriber.mark((await subscriber.ids())[::2])
    first = await subscriber.page("?unread=true&limit=3")
    second = await subscriber.page(f"?unread=true&limit=3&after={first['next']}")
    assert titles(first) + titles(second) == ["n8", "n6", "n4", "n2"]
    assert second["next"] is None


def begin(reader: InboxClient, query: str = "?wait=20", **headers: str) -> "asyncio.Task[Answer]":
    """A poll that goes on beside the test."""
    return asyncio.create_task(reader.ask("GET", f"/notifications{query}", headers=headers))


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


async def test_what_ends_no_wait(app: App, subscriber: InboxClient, other_inbox: InboxClient) -> None:
    await other_inbox.subscribe(app.project_id)
    await app.notify([subscriber.account], title="n1")
    await subscriber.mark(await subscriber.ids())
    latest = (await subscriber.page())["latest"]

    waiting = [begin(subscriber, f"?wait=20&{rest}") for rest in ("unread=true", f"after={latest}")]
    await until_waiting(app.server, 2)
    await app.notify([other_inbox.account], title="for another")
    await until_waiting(app.server, 2)
    assert not any(each.done() for each in waiting)
    await app.notify([subscriber.account], title="n2")

    assert [titles((await each).json) for each in waiting] == [["n2"]] * 2


async def test_all_waiters_are_woken(app: App, subscriber: InboxClient, other_inbox: InboxClient) -> None:
    await other_inbox.subscribe(app.project_id)
    waiting = [begin(reader) for reader in (subscriber, other_inbox) for _ in range(50)]
    await until_waiting(app.server, 100)
    await app.notify([subscriber.account, other_inbox.account], title="n1")
    assert [titles((await answer).json) for answer in waiting] == [["n1"]] * 100


async def test_a_reader_that_follows_latest_misses_nothing(app: App, subscriber: InboxClient) -> None:
    wanted = titles_from(1, 60)
    sending, seen, latest = asyncio.create_task(send(app, subscriber, *wanted)), list[str](), "0..0"

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


@pytest.mark.parametrize("end", ["signed out", "expired"])
async def test_the_end_of_a_token_ends_its_wait(app: App, subscriber: InboxClient, end: str) -> None:
    waiting = begin(subscriber)
    await until_waiting(app.server, 1)

    if end == "signed out":
        assert (await subscriber.ask("POST", "/logout")).status == 200
    else:
        app.server.clock.advance(app.server.settings.inbox_token_ttl)
    await app.notify([subscriber.account])

    (await waiting).problem(401)
