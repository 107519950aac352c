"""Waiting for the next notification: `Prefer: wait=N` or `?wait=N`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.inbox.processes import reached
from tests.support.asking import Answer
from tests.support.figures import METRICS_TOKEN, until_waiting
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App, opened_app
from tests.support.server import running_server, server_process


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


async def test_stored_notifications_are_answered_without_waiting(app: App, subscriber: InboxClient) -> None:
    await app.notify([subscriber.account], title="n1")

    assert titles((await begin(subscriber)).json) == ["n1"]


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


async def test_notifications_before_the_cursor_do_not_end_the_wait(app: App, subscriber: InboxClient) -> None:
    await app.notify([subscriber.account], title="n1")
    latest = (await subscriber.page())["latest"]

    waiting = begin(subscriber, f"?wait=20&after={latest}")
    await until_waiting(app.server, 1)
    await app.notify([subscriber.account], title="n2")

    assert titles((await waiting).json) == ["n2"]


async def test_notifications_outside_the_filter_do_not_end_the_wait(
    app: App, subscriber: InboxClient
) -> None:
    await app.notify([subscriber.account], title="n1")
    await subscriber.mark(await subscriber.ids())

    waiting = begin(subscriber, "?wait=20&unread=true")
    await until_waiting(app.server, 1)
    await app.notify([subscriber.account], title="n2")

    assert titles((await waiting).json) == ["n2"]


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


async def test_all_waiting_clients_are_woken(
    app: App, subscriber: InboxClient, other_inbox: InboxClient
) -> None:
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


async def test_a_wait_that_cannot_be_read_is_refused(subscriber: InboxClient) -> None:
    (await begin(subscriber, "?wait=soon")).problem(400)


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
