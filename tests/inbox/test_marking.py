"""Marking as read: each notification counts once, for its own user."""

import asyncio
from typing import Any

import pytest

from tests.inbox.conftest import send, titles_from
from tests.support.asking import pointers
from tests.support.inbox_client import InboxClient
from tests.support.project import NEWS, OFFERS, App, create_app, look
from tests.support.server import RunningServer


def figures(server: RunningServer) -> list[tuple[Any, ...]]:
    return look(server, "SELECT sent, read, bulk_marked FROM daily_figures ORDER BY type")


async def test_marking_counts_each_notification_once(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, "n1", "n2", "n3")
    ids = await subscriber.ids()
    odd = ["", "x", "-1", "0", "01", "1.0", " 1", "9" * 18, "9" * 40, "١", "\u0000", "𝔘"]

    for each in odd:
        assert (await subscriber.mark([each])).json == {"read": 0}, each
    assert (await subscriber.mark([*odd, ids[0], ids[0], ids[1]])).json == {"read": 2}
    assert (await subscriber.mark([*["x"] * 497, *ids])).json == {"read": 1}
    await send(app, subscriber, "n4")
    await app.mark_all()
    assert (await subscriber.mark(await subscriber.ids())).json == {"read": 0}
    assert figures(app.server) == [(4, 3, 1)]


@pytest.mark.own_server
async def test_reads_are_counted_by_project_type_and_day(
    server: RunningServer, app: App, subscriber: InboxClient
) -> None:
    other = await create_app(server, app.operator, "Other", "other")
    await subscriber.subscribe("other")
    await app.notify([subscriber.account], type=NEWS)
    await app.notify([subscriber.account], type=OFFERS)
    await other.notify([subscriber.account], type=NEWS)
    server.clock.advance(86_400)
    await app.notify([subscriber.account], type=NEWS)

    assert (await subscriber.mark(await subscriber.ids())).json == {"read": 4}

    counted = look(
        server, "SELECT project, type, day - (SELECT min(day) FROM daily_figures), read FROM daily_figures"
    )
    assert sorted(counted) == [(1, 1, 0, 1), (1, 1, 1, 1), (1, 2, 0, 1), (2, 3, 0, 1)]


async def test_readers_that_race_are_counted_once(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 20))
    ids = await subscriber.ids()
    answers = await asyncio.gather(*(subscriber.mark(ids[start:]) for start in range(20) for _ in range(3)))
    assert sum(answer.json["read"] for answer in answers) == 20
    assert figures(app.server) == [(20, 20, 0)]


async def test_a_bulk_mark_that_races_with_readers_adds_up(app: App, subscriber: InboxClient) -> None:
    await send(app, subscriber, *titles_from(1, 20))
    ids = await subscriber.ids()

    answers = await asyncio.gather(*(subscriber.mark([one]) for one in ids[:10]), app.mark_all(), *(
        subscriber.mark([one]) for one in ids[10:]
    ))  # fmt: skip

    read = sum(answer.json.get("read", 0) for answer in answers)
    marked = sum(answer.json.get("marked", 0) for answer in answers)
    assert read + marked == 20
    assert figures(app.server) == [(20, read, marked)]


async def test_ids_are_some_strings(subscriber: InboxClient) -> None:
    no_ids: list[dict[str, Any]] = [{}, {"ids": []}, {"ids": ["1"] * 501}, {"ids": "1"}, {"ids": None}]
    for fields in no_ids:
        answer = await subscriber.ask("POST", "/notifications/read", fields)
        assert pointers(answer.problem(400)) == ["#/ids"]
    assert pointers((await subscriber.mark([1, "1", None])).problem(400)) == ["#/ids/0", "#/ids/2"]
    misspelled = await subscriber.ask("POST", "/notifications/read", {"ids": ["1"], "IDs": ["2"]})
    assert pointers(misspelled.problem(400)) == ["#/IDs"]
