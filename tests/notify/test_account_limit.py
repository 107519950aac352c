"""The bucket of each account with each project: 50 notifications at once, then one every 30 minutes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import Answer
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.figures import METRICS_TOKEN, figure
from tests.support.project import NEWS, OFFERS, App, accounts, look, opened_app, operator_beside
from tests.support.server import RunningServer, running_server

A, B, C = accounts(3)
BURST, INTERVAL = 50, 1_800
HOUR, YEAR = 3_600, 365 * 86_400
US = 0.000001
BUCKETS = "SELECT count(*) FROM account_buckets"


async def drain(app: App, spelled: str, tokens: int = BURST) -> None:
    """Spend so many tokens; takes half a second each, for the sake of the limit on calls."""
    for _ in range(tokens):
        assert (await app.notify([spelled])).json["sent"] == [spelled]
        app.server.clock.advance(0.5)


async def buckets_after_sweeping(server: RunningServer) -> int:
    """How many accounts' buckets are stored once the server has looked through them at least once."""
    before = await figure(server, "database_commits_total")

    async def swept() -> bool:
        return await figure(server, "database_commits_total") >= before + 20

    await eventually(swept)
    count: int = look(server, BUCKETS)[0][0]
    return count


async def set_back(app: App) -> None:
    """Set the clock back by ten years; the limit on calls allows one again after its own interval."""
    app.server.clock.advance(-10 * YEAR)
    (await app.notify([A])).problem(429)
    app.server.clock.advance(0.5)


def limited(spelled: str, seconds: int) -> dict[str, Any]:
    return {"account": spelled, "reason": "rate_limited", "retry_after": seconds}


def retry_after(answer: Answer) -> int | None:
    """How long the one account of the request must wait; None when it was sent to."""
    outcome = answer.json
    if outcome["sent"]:
        return None
    (failure,) = outcome["failed"]
    seconds: int = failure["retry_after"]
    return seconds


async def test_50_pass_at_once_and_then_one_every_30_minutes_to_the_microsecond(app: App) -> None:
    clock = app.server.clock
    await app.subscribe(A)
    started_us = clock.now_us()
    await drain(app, A)

    waits = []
    for moment in (INTERVAL - 1.5, INTERVAL - 1, INTERVAL - US, INTERVAL, INTERVAL, 2 * INTERVAL - US):
        clock.advance(moment - (clock.now_us() - started_us) / 1_000_000)
        waits.append(retry_after(await app.notify([A])))
    clock.advance(US)

    assert waits == [2, 1, 1, None, INTERVAL, 1]
    assert retry_after(await app.notify([A])) is None


async def test_a_bucket_that_had_time_to_fill_holds_50_and_no_more(app: App) -> None:
    await app.subscribe(A)
    await drain(app, A)

    app.server.clock.advance(10 * YEAR)
    await drain(app, A)

    assert retry_after(await app.notify([A])) == INTERVAL - 25


async def test_each_account_and_each_project_has_a_bucket_of_its_own(app: App, other_app: App) -> None:
    for each in (app, other_app):
        await each.subscribe(A, B)
        await each.operator.projects.limit_accounts(each.project_id, 1, 1)
    await app.notify([A])

    assert (await app.notify([A, B])).json == {"sent": [B], "failed": [limited(A, HOUR)], "not_found": []}
    assert (await other_app.notify([A, B])).json["sent"] == [A, B]


async def test_one_request_may_have_accounts_of_every_fate(app: App) -> None:
    await app.subscribe(A, B)
    await app.subscribe(C, types=[OFFERS])
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)
    await app.notify([A])
    app.server.clock.advance(1.5)
    stranger = accounts(1, first=9)[0]

    answer = await app.notify([A, stranger, B, C])

    failed = [limited(A, HOUR - 1), {"account": C, "reason": "type_not_subscribed"}]
    assert answer.json == {"sent": [B], "failed": failed, "not_found": [stranger]}


async def test_notification_that_is_not_sent_costs_no_token(app: App) -> None:
    await app.subscribe(A, types=[OFFERS])
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)

    await app.notify([A, B])
    (await app.post({})).problem(400)
    assert look(app.server, BUCKETS) == [(0,)]

    assert (await app.notify([A], type=OFFERS)).json["sent"] == [A]


async def test_a_refusal_costs_nothing(app: App) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)
    await app.notify([A])
    for _ in range(10):
        assert retry_after(await app.notify([A])) == HOUR

    app.server.clock.advance(HOUR)

    assert retry_after(await app.notify([A])) is None


async def test_a_limit_that_was_raised_counts_from_then(app: App) -> None:
    await app.subscribe(A)
    waits = []
    for per_hour, burst, calls in ((1, 1, 2), (1, 3, 3), (3_600, 10, 8)):
        await app.operator.projects.limit_accounts(app.project_id, per_hour, burst)
        waits += [retry_after(await app.notify([A])) for _ in range(calls)]

    assert waits == [None, HOUR] + [None, None, HOUR] + [None] * 7 + [1]


async def test_all_types_of_a_project_share_the_bucket(app: App) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, 1, 2)
    await app.notify([A], type=NEWS)
    await app.notify([A], type=OFFERS)

    assert retry_after(await app.notify([A], type=NEWS)) == HOUR


async def test_to_unsubscribe_and_subscribe_again_refills_nothing(app: App) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)
    await app.notify([A])

    await app.unsubscribe(A)
    assert (await app.notify([A])).json["not_found"] == [A]
    await app.subscribe(A)

    assert retry_after(await app.notify([A])) == HOUR


@pytest.mark.parametrize("tokens", [1, 3, 19])
async def test_simultaneous_calls_spend_exactly_the_tokens_there_are(app: App, tokens: int) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, 1, tokens)

    answers = await asyncio.gather(*(app.notify([A]) for _ in range(20)))

    waits = [retry_after(answer) for answer in answers]
    assert waits.count(None) == tokens
    assert waits.count(HOUR) == 20 - tokens
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(tokens,)]


async def test_a_projects_own_limit_holds_at_once_and_until_it_is_taken_back(app: App) -> None:
    projects, project_id = app.operator.projects, app.project_id
    await app.subscribe(A, B)
    await app.notify([A])

    await projects.limit_accounts(project_id, per_hour=3600, burst=2)
    waits = [retry_after(await app.notify([B])) for _ in range(3)]
    app.server.clock.advance(1)
    waits.append(retry_after(await app.notify([B])))
    await projects.reset_account_limit(project_id)
    waits.append(retry_after(await app.notify([B])))

    assert waits == [None, None, 1, None, None]


async def test_smaller_limit_waits_no_longer_than_its_own_window(app: App) -> None:
    await app.subscribe(A)
    await drain(app, A, tokens=10)

    await app.operator.projects.limit_accounts(app.project_id, per_hour=60, burst=2)

    assert retry_after(await app.notify([A])) == 60
    app.server.clock.advance(60)
    assert retry_after(await app.notify([A])) is None


async def test_one_projects_own_limit_is_not_anothers(app: App, other_app: App) -> None:
    await other_app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)

    assert [retry_after(await other_app.notify([A])) for _ in range(2)] == [None, None]


async def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, account_rate_per_hour=7200, account_burst=1) as server,
        opened_app(server) as app,
    ):
        await app.subscribe(A)
        waits = []

        for seconds in (0, 0.499999, 0.000001, 0):
            server.clock.advance(seconds)
            waits.append(retry_after(await app.notify([A])))

        assert waits == [None, 1, None, 1]


async def test_clock_set_back_neither_refills_nor_locks_out(app: App) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=3)
    await drain(app, A, tokens=3)

    await set_back(app)
    back = retry_after(await app.notify([A]))
    app.server.clock.advance(INTERVAL - US)
    early = retry_after(await app.notify([A]))
    app.server.clock.advance(US)

    assert (back, early) == (INTERVAL, 1)
    assert [retry_after(await app.notify([A])) for _ in range(2)] == [None, INTERVAL]


async def test_account_with_tokens_waits_at_most_a_window_after_a_clock_set_back(app: App) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=3)
    await drain(app, A, tokens=1)

    await set_back(app)
    assert retry_after(await app.notify([A])) == INTERVAL
    app.server.clock.advance(3 * INTERVAL)

    assert [retry_after(await app.notify([A])) for _ in range(4)] == [None, None, None, INTERVAL]


async def test_a_clock_that_is_set_back_a_little_delays_as_little(app: App) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=3600, burst=2)
    await app.notify([A])

    app.server.clock.advance(-0.25)

    assert retry_after(await app.notify([A])) == 1
    app.server.clock.advance(0.25)
    assert [retry_after(await app.notify([A])) for _ in range(2)] == [None, 1]


async def test_a_restart_refills_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    limit = {"account_rate_per_hour": 1, "account_burst": 2}
    async with running_server(tmp_path, clock, **limit) as server, opened_app(server) as app:
        await app.subscribe(A)
        before = [retry_after(await app.notify([A])) for _ in range(3)]

    async with (
        running_server(tmp_path, clock, **limit) as server,
        operator_beside(server.settings, clock) as operator,
    ):
        app = App(server, operator, app.project_id, app.secret)
        after = retry_after(await app.notify([A]))
        clock.advance(HOUR)
        later = [retry_after(await app.notify([A])) for _ in range(2)]

    assert (before, after, later) == ([None, None, HOUR], HOUR, [None, HOUR])


async def test_a_bucket_is_forgotten_once_it_is_full_and_not_before(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, sweep_interval=0.01, metrics_token=METRICS_TOKEN) as server,
        opened_app(server) as app,
    ):
        await app.subscribe(A, B)
        await app.notify([A, B])
        server.clock.advance(1)
        await app.notify([A])

        server.clock.advance(INTERVAL - 1 - US)
        counts = [await buckets_after_sweeping(server)]
        for seconds in (US, INTERVAL - US, US):
            server.clock.advance(seconds)
            counts.append(await buckets_after_sweeping(server))

        assert counts == [2, 1, 1, 0]


async def test_granting_more_keeps_the_tokens_that_were_left(app: App) -> None:
    projects = app.operator.projects
    await projects.limit_accounts(app.project_id, per_hour=2, burst=10)
    await app.subscribe(A)
    assert retry_after(await app.notify([A])) is None

    await projects.limit_accounts(app.project_id, per_hour=1_000, burst=10)

    assert [retry_after(await app.notify([A])) for _ in range(10)] == [None] * 9 + [4]


async def test_granting_less_gives_nothing_back(app: App) -> None:
    await app.operator.projects.limit_accounts(app.project_id, per_hour=3_600, burst=5)
    await app.subscribe(A)
    for _ in range(5):
        assert retry_after(await app.notify([A])) is None

    await app.operator.projects.limit_accounts(app.project_id, per_hour=1, burst=5)

    assert retry_after(await app.notify([A])) == HOUR
    app.server.clock.advance(HOUR)
    assert retry_after(await app.notify([A])) is None
    assert retry_after(await app.notify([A])) == HOUR
