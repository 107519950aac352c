"""`mark-all-as-read`: what exists now is read, by nobody in particular; what comes later is not."""

import asyncio

import pytest

from bridge_server.kernel.instants import day_of
from bridge_server.projects.models import NO_FIGURES, ReadFigures
from tests.support.project import NEWS, OFFERS, App, accounts, execute, look

A, B, C = accounts(3)
DAY = 86_400


async def marked(app: App) -> int:
    count: int = (await app.mark_all()).json["marked"]
    return count


async def figures(app: App, type_id: str | None = None) -> ReadFigures:
    """The figures of the project, or of one type."""
    days = await app.operator.projects.figures(app.project_id, 0, day_of(app.server.clock.now_ms()))
    return sum((day.figures for day in days if type_id in (None, day.type_id)), NO_FIGURES)


def read_by_user(app: App, count: int) -> None:
    """Let the users of so many deliveries read them, as an inbox does."""
    execute(
        app.server,
        """
        UPDATE deliveries SET read_at_ms = 1 WHERE (account, sending) IN
            (SELECT account, sending FROM deliveries WHERE read_at_ms IS NULL ORDER BY sending LIMIT ?)
        """,
        count,
    )
    execute(app.server, "UPDATE daily_figures SET read = read + ?", count)


async def test_every_delivery_that_is_unread_is_counted_once(app: App) -> None:
    await app.subscribe(A, B, C)
    assert await marked(app) == 0
    await app.notify([A, B, C], "x")
    await app.notify([A, B])
    read_by_user(app, 2)
    assert [await marked(app) for _ in range(2)] == [3, 0]


async def test_a_later_call_of_a_marked_notification_reaches_others_unread(app: App) -> None:
    await app.subscribe(A, B)
    await app.notify([A], "x")
    await marked(app)
    await app.notify([A, B], "x")
    assert await marked(app) == 1


async def test_every_type_and_day_is_marked_and_no_other_project(app: App, other_app: App) -> None:
    for each in (app, other_app):
        await each.subscribe(A, B)
    await other_app.notify([A, B])
    for type_id in (NEWS, OFFERS, NEWS):
        await app.notify([A, B], type=type_id)
        app.server.clock.advance(DAY)

    assert await marked(app) == 6
    assert await figures(app, NEWS) == ReadFigures(sent=4, read=0, bulk_marked=4, lapsed=0)
    assert await figures(app, OFFERS) == ReadFigures(sent=2, read=0, bulk_marked=2, lapsed=0)
    assert (await figures(other_app)).bulk_marked == 0
    assert await marked(other_app) == 2


async def test_marked_notification_never_counts_in_the_read_rate(app: App) -> None:
    await app.subscribe(A, B, C)
    assert (await figures(app)).read_rate is None
    await app.notify([A])
    await marked(app)
    assert (await figures(app)).read_rate is None

    await app.notify([A, B, C])
    read_by_user(app, 1)
    assert (await figures(app)).read_rate == 1 / 3
    await marked(app)
    after_marking = await figures(app)
    await app.notify([A, B])

    assert after_marking == ReadFigures(sent=4, read=1, bulk_marked=3, lapsed=0)
    assert after_marking.read_rate == 1
    assert (await figures(app)).read_rate == 1 / 3


async def test_figures_are_kept_by_the_day_of_sending(app: App) -> None:
    await app.subscribe(A, B)
    clock = app.server.clock
    clock.advance(DAY - (clock.now_us() % (DAY * 1_000_000)) / 1_000_000 - 0.001)
    today = day_of(clock.now_ms())
    await app.notify([A])
    clock.advance(0.001)
    await app.notify([A, B])

    days = await app.operator.projects.figures(app.project_id, today, today + 1)

    assert [(each.day, each.figures.sent) for each in days] == [(today, 1), (today + 1, 2)]
    assert await app.operator.projects.figures(app.project_id, today + 2, today + 9) == []


@pytest.mark.own_server
async def test_to_mark_while_sending_loses_and_repeats_nothing(app: App) -> None:
    everybody = accounts(50)
    await app.subscribe(*everybody)

    sends = [app.notify(everybody) for _ in range(20)]
    marks = [marked(app) for _ in range(4)]
    answers = await asyncio.gather(*sends, *marks)

    counts = [answer for answer in answers if isinstance(answer, int)]
    assert sum(counts) + await marked(app) == 20 * 50
    assert all(count % 50 == 0 for count in counts)
    assert (await figures(app)) == ReadFigures(sent=1_000, read=0, bulk_marked=1_000, lapsed=0)
    assert look(app.server, "SELECT count(*) FROM deliveries WHERE read_at_ms IS NOT NULL") == [(0,)]
