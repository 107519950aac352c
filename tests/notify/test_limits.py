"""Limits on the calls of a project and on the notifications of an account, restart or not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.asking import METRICS_TOKEN, Answer, ask, figure
from tests.support.clock import ManualClock
from tests.support.project import (
    METHODS,
    NEWS,
    OFFERS,
    App,
    a_notification,
    accounts,
    look,
    opened_app,
    operator_beside,
)
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

A, B, C = accounts(3)
US = 0.000001
HOUR, YEARS_10 = 3_600, 10 * 365 * 86_400


@asynccontextmanager
async def restarted(app: App, data_dir: Path, **settings: Any) -> AsyncIterator[App]:
    """The project on the next server over this folder."""
    clock = app.server.clock
    async with (
        running_server(data_dir, clock, **settings) as server,
        operator_beside(server.settings, clock) as operator,
    ):
        yield App(server, operator, app.project_id, app.secret)


class CallLimit(NamedTuple):
    """One row of the protocol's table of limits (section A)."""

    endpoint: str
    name: str
    burst: int
    interval: float


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
    [
        pytest.param(limit, marks=in_production if limit.endpoint == "listing" else (), id=limit.endpoint)
        for limit in LIMITS
    ],
)


async def call(app: App, endpoint: str) -> Answer:
    """A call that succeeds unless there are too many of them."""
    bodies = {"notify": {"notification": a_notification(), "accounts": [A]}, "lookup": {"accounts": [A]}}
    return await app.ask(METHODS[endpoint], app.paths[endpoint], bodies.get(endpoint))


async def statuses(app: App, limit: CallLimit, count: int) -> list[int]:
    return [(await call(app, limit.endpoint)).status for _ in range(count)]


@every_limit
async def test_the_burst_passes_at_once_and_then_one_call_each_interval(app: App, limit: CallLimit) -> None:
    assert await statuses(app, limit, limit.burst + 2) == [200] * limit.burst + [429, 429]
    for _ in range(3):
        app.server.clock.advance(limit.interval - US)
        assert await statuses(app, limit, 1) == [429]
        app.server.clock.advance(US)
        assert await statuses(app, limit, 2) == [200, 429]


@every_limit
async def test_every_answer_but_401_tells_where_the_project_stands(app: App, limit: CallLimit) -> None:
    path, wrong = app.paths[limit.endpoint], {"Authorization": "Bearer wrong"}
    for _ in range(limit.burst + 1):
        unknown = await ask(app.server, METHODS[limit.endpoint], path, headers=wrong)
        unknown.problem(401)
        assert not {"RateLimit", "RateLimit-Policy", "Retry-After"} & unknown.headers.keys()

    first, *_, last, refused = [await call(app, limit.endpoint) for _ in range(limit.burst + 1)]

    whole, window = max(1, round(limit.interval)), round(limit.burst * limit.interval)
    assert first.headers["RateLimit"] == f'"{limit.name}";r={limit.burst - 1};t={whole}'
    emptied = f'"{limit.name}";r=0;t={window}'
    assert last.headers["RateLimit"] == refused.headers["RateLimit"] == emptied
    policy = f'"{limit.name}";q={limit.burst};w={window}'
    assert {each.headers["RateLimit-Policy"] for each in (first, last, refused)} == {policy}
    assert refused.problem(429)["type"].endswith(":limit-exceeded")
    assert refused.headers["Retry-After"] == str(whole)
    assert "Retry-After" not in first.headers


@every_limit
async def test_every_endpoint_and_project_has_a_limit(app: App, other_app: App, limit: CallLimit) -> None:
    answers = await asyncio.gather(*(call(app, limit.endpoint) for _ in range(limit.burst + 10)))
    assert sorted(answer.status for answer in answers) == [200] * limit.burst + [429] * 10

    assert (await call(other_app, limit.endpoint)).status == 200
    for other in LIMITS:
        assert (await call(app, other.endpoint)).status == (429 if other is limit else 200)

    app.server.clock.advance(-YEARS_10)
    assert await statuses(app, limit, 1) == [429]
    app.server.clock.advance(limit.interval)
    assert await statuses(app, limit, 2) == [200, 429]


@each_row("endpoint", ["notify", "lookup"])
async def test_a_call_that_is_refused_for_what_it_says_spends_one(app: App, endpoint: str) -> None:
    path = app.paths[endpoint]

    answers = [await app.ask("POST", path, body) for body in (b"{", b"{}", bytes(524_289))]
    answers.append(await app.ask("POST", path, b"{}", {"Content-Encoding": "gzip"}))
    answers.append(await call(app, endpoint))

    assert [answer.status for answer in answers] == [400, 400, 413, 415, 200]
    left = [int(answer.headers["RateLimit"].split(";r=")[1].split(";")[0]) for answer in answers]
    assert left == list(range(left[0], left[0] - 5, -1))


async def test_a_wrong_method_spends_nothing(app: App) -> None:
    for path in app.paths.values():
        answer = await app.ask("PATCH", path)
        answer.problem(405)
        assert "RateLimit" not in answer.headers


async def test_a_restart_refills_nothing(tmp_path: Path) -> None:
    by_interval = sorted(LIMITS, key=lambda limit: limit.interval)
    async with running_server(tmp_path, ManualClock()) as server, opened_app(server) as app:
        for limit in LIMITS:
            assert set(await statuses(app, limit, limit.burst)) == {200}

    for limits in (by_interval, by_interval[-1:]):
        async with restarted(app, tmp_path) as app:
            for limit in limits:
                assert await statuses(app, limit, 1) == [429]
                app.server.clock.advance(limit.interval)
                assert await statuses(app, limit, 2) == [200, 429]


@in_production
async def test_head_of_a_listing_spends_nothing_and_tells_where_one_stands(app: App) -> None:
    path = app.paths["listing"]

    heads = [await app.ask("HEAD", path) for _ in range(5)]
    listings = [(await app.listing()).status for _ in range(3)]
    after = await app.ask("HEAD", path)

    assert {(each.status, each.headers["RateLimit"]) for each in heads} == {
        (200, '"subscriber-listings";r=2;t=0')
    }
    assert listings == [200, 200, 429]
    assert (after.status, after.headers["RateLimit"]) == (200, '"subscriber-listings";r=0;t=600')


BURST, INTERVAL = 50, 1_800
BUCKETS = "SELECT count(*) FROM account_buckets"


async def drain(app: App, spelled: str, tokens: int) -> None:
    """Spend so many tokens; takes half a second each, for the sake of the limit on calls."""
    for _ in range(tokens):
        assert (await app.notify([spelled])).json["sent"] == [spelled]
        app.server.clock.advance(0.5)


def retry_after(answer: Answer) -> int | None:
    """How long the one account of the request must wait; None when it was sent to."""
    outcome = answer.json
    if outcome["sent"]:
        return None
    (failure,) = outcome["failed"]
    seconds: int = failure["retry_after"]
    return seconds


async def waits(app: App, spelled: str, count: int) -> list[int | None]:
    """How long an account must wait after each of so many calls."""
    return [retry_after(await app.notify([spelled])) for _ in range(count)]


async def test_50_pass_at_once_and_then_one_every_30_minutes_to_the_microsecond(app: App) -> None:
    clock = app.server.clock
    await app.subscribe(A)
    started_us = clock.now_us()
    await drain(app, A, BURST)

    waited = []
    for moment in (INTERVAL - 1.5, INTERVAL - 1, INTERVAL - US, INTERVAL, INTERVAL, 2 * INTERVAL - US):
        clock.advance(moment - (clock.now_us() - started_us) / 1_000_000)
        waited += await waits(app, A, 1)
    clock.advance(US)

    assert waited == [2, 1, 1, None, INTERVAL, 1]
    assert await waits(app, A, 1) == [None]


async def test_each_account_of_each_project_has_a_bucket_for_all_types(app: App, other_app: App) -> None:
    for each in (app, other_app):
        await each.subscribe(A, B)
    await app.operator.projects.limit_accounts(app.project_id, 1, 2)
    for type_id in (NEWS, OFFERS):
        await app.notify([A], type=type_id)

    limited = {"account": A, "reason": "rate_limited", "retry_after": HOUR}
    assert (await app.notify([A, B])).json == {"sent": [B], "failed": [limited], "not_found": []}
    for _ in range(3):
        assert (await other_app.notify([A, B])).json["sent"] == [A, B]


async def test_only_what_is_sent_costs_a_token_and_only_time_refills_the_bucket(app: App) -> None:
    await app.subscribe(A, types=[OFFERS])
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)

    await app.notify([A, B])
    (await app.post({})).problem(400)
    assert look(app.server, BUCKETS) == [(0,)]
    assert (await app.notify([A], type=OFFERS)).json["sent"] == [A]

    await app.unsubscribe(A)
    assert (await app.notify([A])).json["not_found"] == [A]
    await app.subscribe(A)
    assert await waits(app, A, 10) == [HOUR] * 10
    app.server.clock.advance(HOUR)
    assert await waits(app, A, 1) == [None]


@pytest.mark.parametrize("tokens", [1, 3, 19])
async def test_simultaneous_calls_spend_exactly_the_tokens_there_are(app: App, tokens: int) -> None:
    await app.subscribe(A)
    await app.operator.projects.limit_accounts(app.project_id, 1, tokens)
    answers = await asyncio.gather(*(app.notify([A]) for _ in range(20)))
    waited = [retry_after(answer) for answer in answers]
    assert (waited.count(None), waited.count(HOUR)) == (tokens, 20 - tokens)
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(tokens,)]


async def test_a_projects_own_limit_holds_at_once_and_until_it_is_taken_back(app: App) -> None:
    projects, project_id, clock = app.operator.projects, app.project_id, app.server.clock
    await app.subscribe(A, B, C)

    await projects.limit_accounts(project_id, per_hour=3600, burst=2)
    assert await waits(app, A, 3) == [None, None, 1]
    clock.advance(1)
    assert await waits(app, A, 1) == [None]
    await projects.reset_account_limit(project_id)
    assert await waits(app, A, 1) == [None]

    await drain(app, B, tokens=10)
    await projects.limit_accounts(project_id, per_hour=60, burst=2)
    assert await waits(app, B, 1) == [60], "a smaller limit waits longer than its own window"
    clock.advance(60)
    assert await waits(app, B, 1) == [None]

    await projects.limit_accounts(project_id, per_hour=2, burst=10)
    assert await waits(app, C, 1) == [None]
    await projects.limit_accounts(project_id, per_hour=1_000, burst=10)
    assert await waits(app, C, 10) == [None] * 9 + [4], "to grant more changes what was left"


async def test_the_limit_of_accounts_is_a_setting_and_a_restart_refills_none(tmp_path: Path) -> None:
    limit = {"account_rate_per_hour": 7_200, "account_burst": 1}
    async with running_server(tmp_path, ManualClock(), **limit) as server, opened_app(server) as app:
        await app.subscribe(A)
        waited = []
        for seconds in (0, 0.5 - US, US, 0):
            server.clock.advance(seconds)
            waited += await waits(app, A, 1)
    assert waited == [None, 1, None, 1]

    async with restarted(app, tmp_path, **limit) as app:
        assert await waits(app, A, 1) == [1]
        app.server.clock.advance(0.5)
        assert await waits(app, A, 2) == [None, 1]


async def test_clock_set_back_neither_refills_an_account_nor_locks_it_out(app: App) -> None:
    clock = app.server.clock
    await app.subscribe(A, B)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=3)
    await drain(app, A, tokens=3)
    await drain(app, B, tokens=1)

    clock.advance(-YEARS_10)
    (await app.notify([A])).problem(429)
    clock.advance(0.5)  # the limit on calls allows one again after its own interval
    assert await waits(app, A, 1) == [INTERVAL]
    clock.advance(0.5)
    assert await waits(app, B, 1) == [INTERVAL]
    clock.advance(INTERVAL - 0.5 - US)
    assert await waits(app, A, 1) == [1]
    clock.advance(US)
    assert await waits(app, A, 2) == [None, INTERVAL]
    clock.advance(2 * INTERVAL + 0.5)

    assert await waits(app, B, 4) == [None, None, None, INTERVAL], "it waits longer than a window"


async def buckets_after_sweeping(server: RunningServer) -> int:
    """How many accounts' buckets are stored once the server has looked through them at least once."""
    before = await figure(server, "database_commits_total")

    async def swept() -> bool:
        return await figure(server, "database_commits_total") >= before + 20

    await eventually(swept)
    count: int = look(server, BUCKETS)[0][0]
    return count


async def test_a_bucket_is_forgotten_once_it_is_full_and_not_before(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, sweep_interval=0.01, metrics_token=METRICS_TOKEN) as server,
        opened_app(server) as app,
    ):
        await app.subscribe(A, B)
        await app.notify([A, B])
        server.clock.advance(1)
        await app.notify([A])

        counts = []
        for seconds in (INTERVAL - 1 - US, US, INTERVAL - US, US):
            server.clock.advance(seconds)
            counts.append(await buckets_after_sweeping(server))

    assert counts == [2, 1, 1, 0]
