"""How often a project may call each of the four: at once, then at an even pace, restart or not."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from bridge_server.kernel.clock import SystemClock
from tests.support.asking import Answer, ask
from tests.support.clock import ManualClock
from tests.support.engines import settings_over
from tests.support.project import METHODS, App, account, opened_app, operator_beside, paths_of
from tests.support.rows import each_row
from tests.support.server import running_server, server_process

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
async def test_a_burst_that_had_time_to_recover_is_no_larger(app: App, limit: CallLimit) -> None:
    await use_up(app, limit)

    app.server.clock.advance(100 * limit.burst * limit.interval)

    await use_up(app, limit)
    assert await statuses(app, limit, 1) == [429]


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


@in_production
async def test_the_seconds_to_wait_are_rounded_up(app: App) -> None:
    listing = LIMITS[2]
    await use_up(app, listing)
    waits = []

    for seconds in (0, 0.5, 0.5, 298.5, 0.499999):
        app.server.clock.advance(seconds)
        waits.append((await call(app, "listing")).headers["Retry-After"])

    assert waits == ["300", "300", "299", "1", "1"]


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


@every_limit
async def test_a_restart_refills_nothing(tmp_path: Path, limit: CallLimit) -> None:
    clock = ManualClock()
    async with running_server(tmp_path, clock) as server, opened_app(server) as app:
        await use_up(app, limit)
        project_id, secret = app.project_id, app.secret

    for _ in range(2):
        async with (
            running_server(tmp_path, clock) as server,
            operator_beside(server.settings, clock) as operator,
        ):
            app = App(server, operator, project_id, secret)
            assert await statuses(app, limit, 1) == [429]
            clock.advance(limit.interval)
            assert await statuses(app, limit, 2) == [200, 429]


@each_row("limit", [LIMITS[2], LIMITS[3]], ids=str)
async def test_a_kill_right_after_the_answer_refills_nothing(tmp_path: Path, limit: CallLimit) -> None:
    data_dir = tmp_path / "data"
    async with aiohttp.ClientSession() as client:
        with server_process(data_dir) as server:
            async with operator_beside(settings_over(data_dir), SystemClock()) as operator:
                project, secret = await operator.projects.create("App")
            headers = {"Authorization": f"Bearer {secret.secret}"}
            path = paths_of(project.project_id)[limit.endpoint]

            async def status_of(url: str) -> int:
                async with client.request(METHODS[limit.endpoint], url + path, headers=headers) as response:
                    await response.read()
                    return response.status

            before = [await status_of(server.url) for _ in range(limit.burst)]
            server.kill()

        with server_process(data_dir) as server:
            after = await status_of(server.url)

    assert before == [200] * limit.burst
    assert after == 429


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
