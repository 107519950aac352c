"""Limits on the calls of a project and on the notifications of an account, restart or not."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import METRICS_TOKEN, Answer, ask, figure
from tests.support.clock import ManualClock
from tests.support.project import (
    METHODS,
    NEWS,
    OFFERS,
    App,
    account,
    accounts,
    look,
    opened_app,
    operator_beside,
)
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

US = 0.000001


@dataclass(frozen=True, slots=True)
class CallLimit:
    """One row of the protocol's table of limits (section A)."""

    endpoint: str
    name: str
    burst: int
    interval: float

    def __str__(self) -> str:
        return self.endpoint

    @property
    def policy(self) -> str:
        return f'"{self.name}";q={self.burst};w={round(self.burst * self.interval)}'


LIMITS = [
    CallLimit("notify", "notify-calls", 20, 0.5),
    CallLimit("lookup", "subscriber-lookups", 100, 0.01),
    CallLimit("listing", "subscriber-listings", 2, 300),
    CallLimit("mark all", "mark-all-as-read-calls", 5, 3_600),
]
in_production = pytest.mark.own_server
"""Listings have another limit in test mode."""
every_limit = pytest.mark.parametrize(
    "limit",
    [pytest.param(limit, marks=in_production if limit.endpoint == "listing" else ()) for limit in LIMITS],
    ids=str,
)

_BODY = {
    "notify": {"notification": {"type": "news", "title": "t", "body": "b"}, "accounts": [account(1)]},
    "lookup": {"accounts": [account(1)]},
}


async def call(app: App, endpoint: str) -> Answer:
    """A call that succeeds unless there are too many of them."""
    return await app.ask(METHODS[endpoint], app.paths[endpoint], _BODY.get(endpoint))


async def use_up(app: App, limit: CallLimit) -> None:
    answers = [await call(app, limit.endpoint) for _ in range(limit.burst)]
    assert {answer.status for answer in answers} == {200}


async def statuses(app: App, limit: CallLimit, count: int) -> list[int]:
    return [(await call(app, limit.endpoint)).status for _ in range(count)]


@every_limit
async def test_the_burst_passes_at_once_and_then_one_call_each_interval(app: App, limit: CallLimit) -> None:
    await use_up(app, limit)
    assert await statuses(app, limit, 2) == [429, 429]

    for _ in range(3):
        app.server.clock.advance(limit.interval - US)
        assert await statuses(app, limit, 1) == [429]
        app.server.clock.advance(US)
        assert await statuses(app, limit, 2) == [200, 429]


@every_limit
async def test_calls_at_once_pass_exactly_as_many_as_the_burst(app: App, limit: CallLimit) -> None:
    answers = await asyncio.gather(*(call(app, limit.endpoint) for _ in range(limit.burst + 10)))

    assert sorted(answer.status for answer in answers) == [200] * limit.burst + [429] * 10


@every_limit
async def test_every_answer_tells_where_the_project_stands(app: App, limit: CallLimit) -> None:
    first = await call(app, limit.endpoint)
    for _ in range(limit.burst - 1):
        last = await call(app, limit.endpoint)
    refused = await call(app, limit.endpoint)

    whole = max(1, round(limit.interval))
    assert first.headers["RateLimit"] == f'"{limit.name}";r={limit.burst - 1};t={whole}'
    emptied = f'"{limit.name}";r=0;t={round(limit.burst * limit.interval)}'
    assert last.headers["RateLimit"] == refused.headers["RateLimit"] == emptied
    assert {each.headers["RateLimit-Policy"] for each in (first, last, refused)} == {limit.policy}
    assert refused.problem(429)["type"].endswith(":limit-exceeded")
    assert refused.headers["Retry-After"] == str(whole)
    assert "Retry-After" not in first.headers


@every_limit
async def test_each_endpoint_and_each_project_has_a_limit_of_its_own(
    app: App, other_app: App, limit: CallLimit
) -> None:
    await use_up(app, limit)

    assert (await call(other_app, limit.endpoint)).status == 200
    for other in LIMITS:
        assert (await call(app, other.endpoint)).status == (429 if other is limit else 200)


@every_limit
async def test_unauthenticated_call_spends_no_token(app: App, limit: CallLimit) -> None:
    method, path = METHODS[limit.endpoint], app.paths[limit.endpoint]
    for _ in range(limit.burst + 1):
        refused = await ask(app.server, method, path, headers={"Authorization": "Bearer wrong"})
        refused.problem(401)
        assert not {"RateLimit", "RateLimit-Policy", "Retry-After"} & refused.headers.keys()

    await use_up(app, limit)


@each_row("endpoint", ["notify", "lookup"])
async def test_a_call_that_is_refused_for_what_it_says_spends_one(app: App, endpoint: str) -> None:
    path = app.paths[endpoint]
    bearer = {"Authorization": f"Bearer {app.secret}"}

    answers = [
        await app.ask("POST", path, b"{"),
        await app.ask("POST", path, {}),
        await ask(app.server, "POST", path, b"{}", {**bearer, "Content-Encoding": "gzip"}),
        await app.ask("POST", path, bytes(524_289)),
        await call(app, endpoint),
    ]

    assert [answer.status for answer in answers] == [400, 400, 415, 413, 200]
    left = [int(answer.headers["RateLimit"].split(";r=")[1].split(";")[0]) for answer in answers]
    assert left == list(range(left[0], left[0] - 5, -1))


async def test_a_wrong_method_spends_nothing(app: App) -> None:
    for path in app.paths.values():
        answer = await app.ask("PATCH", path)
        answer.problem(405)
        assert "RateLimit" not in answer.headers


@every_limit
async def test_clock_set_back_neither_refills_nor_locks_out(app: App, limit: CallLimit) -> None:
    await use_up(app, limit)

    app.server.clock.advance(-10 * 365 * 86_400)
    assert await statuses(app, limit, 1) == [429]
    app.server.clock.advance(limit.interval)

    assert await statuses(app, limit, 2) == [200, 429]


async def test_a_restart_refills_nothing(tmp_path: Path) -> None:
    clock, by_interval = ManualClock(), sorted(LIMITS, key=lambda limit: limit.interval)
    async with running_server(tmp_path, clock) as server, opened_app(server) as app:
        for limit in LIMITS:
            await use_up(app, limit)
        project_id, secret = app.project_id, app.secret

    for limits in (by_interval, by_interval[-1:]):
        async with (
            running_server(tmp_path, clock) as server,
            operator_beside(server.settings, clock) as operator,
        ):
            app = App(server, operator, project_id, secret)
            for limit in limits:
                assert await statuses(app, limit, 1) == [429]
                clock.advance(limit.interval)
                assert await statuses(app, limit, 2) == [200, 429]


@in_production
async def test_head_of_a_listing_spends_nothing_and_tells_where_one_stands(app: App) -> None:
    path = app.paths["listing"]

    heads = [await app.ask("HEAD", path) for _ in range(5)]
    listings = [await app.listing() for _ in range(3)]
    after = await app.ask("HEAD", path)

    assert [answer.status for answer in heads] == [200] * 5
    assert {answer.headers["RateLimit"] for answer in heads} == {'"subscriber-listings";r=2;t=0'}
    assert [answer.status for answer in listings] == [200, 200, 429]
    assert (after.status, after.headers["RateLimit"]) == (200, '"subscriber-listings";r=0;t=600')


A, B, C = accounts(3)
BURST, INTERVAL = 50, 1_800
HOUR, YEAR = 3_600, 365 * 86_400
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


async def test_each_account_and_each_project_has_a_bucket_of_its_own(app: App, other_app: App) -> None:
    for each in (app, other_app):
        await each.subscribe(A, B)
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)
    await app.notify([A])

    assert (await app.notify([A, B])).json == {"sent": [B], "failed": [limited(A, HOUR)], "not_found": []}
    for _ in range(2):
        assert (await other_app.notify([A, B])).json["sent"] == [A, B]


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


async def test_clock_set_back_neither_refills_an_account_nor_locks_it_out(app: App) -> None:
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


async def test_a_restart_refills_no_account(tmp_path: Path) -> None:
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
