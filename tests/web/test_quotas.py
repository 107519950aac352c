"""Quotas per client address: how many requests and new sessions at once, and how they come back."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.limits import Quotas
from tests.support.asking import Answer, ask
from tests.support.clock import ManualClock
from tests.support.server import RunningServer, running_server

_HEADERS = ("Retry-After", "RateLimit", "RateLimit-Policy")


def limited(
    data_dir: Path, clock: ManualClock | None = None, **settings: Any
) -> AbstractAsyncContextManager[RunningServer]:
    """Three requests at once and one more a second; nobody is exempt."""
    usual = {"quota_exempt": (), "requests_burst": 3, "requests_per_second": 1}
    return running_server(data_dir, clock, **{**usual, **settings})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with limited(tmp_path) as server:
        yield server


async def hello(server: RunningServer) -> Answer:
    return await ask(server, "GET", "/hello")


async def spend(server: RunningServer, count: int) -> list[int]:
    return [(await hello(server)).status for _ in range(count)]


def limits_of(answer: Answer) -> tuple[str | None, ...]:
    return tuple(answer.headers.get(name) for name in _HEADERS)


async def test_each_success_tells_where_the_client_stands(server: RunningServer) -> None:
    answers = [await hello(server) for _ in range(3)]

    policy = '"requests";q=3;w=3'
    assert [limits_of(answer) for answer in answers] == [
        (None, '"requests";r=2;t=1', policy),
        (None, '"requests";r=1;t=2', policy),
        (None, '"requests";r=0;t=3', policy),
    ]


async def test_a_request_over_the_limit_is_429(server: RunningServer) -> None:
    assert await spend(server, 3) == [200] * 3

    answer = await hello(server)

    assert answer.problem(429)["type"].endswith(":limit-exceeded")
    assert limits_of(answer) == ("1", '"requests";r=0;t=3', '"requests";q=3;w=3')


async def test_capacity_comes_back_as_time_goes_by(server: RunningServer) -> None:
    await spend(server, 3)

    server.clock.advance(0.999)
    assert await spend(server, 1) == [429]
    server.clock.advance(0.001)
    assert await spend(server, 2) == [200, 429]
    server.clock.advance(2)
    assert await spend(server, 3) == [200, 200, 429]
    server.clock.advance(3600)
    assert await spend(server, 4) == [200, 200, 200, 429]


async def test_a_refused_request_spends_nothing(server: RunningServer) -> None:
    await spend(server, 3)
    assert await spend(server, 50) == [429] * 50

    server.clock.advance(1)

    assert await spend(server, 1) == [200]


async def test_requests_that_fail_are_charged_too(server: RunningServer) -> None:
    answers = [
        await ask(server, "PUT", "/session/a", b"{"),
        await ask(server, "GET", "/session/a"),
        await ask(server, "POST", "/subscribe", bytes(262_145)),
        await ask(server, "PUT", "/session/a", b"{"),
    ]

    assert [answer.status for answer in answers] == [400, 404, 413, 429]
    assert [answer.headers["RateLimit"][-7:] for answer in answers] == [
        "r=2;t=1",
        "r=1;t=2",
        "r=0;t=3",
        "r=0;t=3",
    ]


async def test_operators_routes_and_preflights_cost_nothing(server: RunningServer) -> None:
    await spend(server, 3)

    answers = [
        await ask(server, "GET", "/livez"),
        await ask(server, "GET", "/readyz"),
        await ask(server, "OPTIONS", "/hello"),
    ]

    assert [answer.status for answer in answers] == [200, 200, 204]
    assert {limits_of(answer) for answer in answers} == {(None, None, None)}


async def test_new_sessions_have_a_limit_of_their_own(tmp_path: Path) -> None:
    async with limited(tmp_path, requests_burst=10, sessions_burst=2, sessions_per_minute=2) as server:
        answers = [await ask(server, "POST", "/session/new") for _ in range(3)]
        other = await hello(server)
        server.clock.advance(29)
        early = await ask(server, "POST", "/session/new")
        server.clock.advance(1)
        later = await ask(server, "POST", "/session/new")

        assert [answer.status for answer in answers] == [200, 200, 429]
        policy = '"requests";q=10;w=10, "new-sessions";q=2;w=60'
        assert limits_of(answers[0]) == (None, '"requests";r=9;t=1, "new-sessions";r=1;t=30', policy)
        assert limits_of(answers[1]) == (None, '"requests";r=8;t=2, "new-sessions";r=0;t=60', policy)
        assert answers[2].headers["Retry-After"] == "30"
        assert (other.status, early.status, later.status) == (200, 429, 200)
        assert early.headers["Retry-After"] == "1"


async def test_a_request_that_one_limit_refuses_spends_none_of_the_other(tmp_path: Path) -> None:
    async with limited(tmp_path, requests_burst=10, sessions_burst=1, sessions_per_minute=1) as server:
        await ask(server, "POST", "/session/new")

        refused = [await ask(server, "POST", "/session/new") for _ in range(5)]

        assert {answer.status for answer in refused} == {429}
        assert (await hello(server)).headers["RateLimit"] == '"requests";r=8;t=2'


async def test_a_refusal_tells_what_is_left_and_not_what_it_would_have_left(tmp_path: Path) -> None:
    async with limited(tmp_path, requests_burst=10, sessions_burst=1, sessions_per_minute=1) as server:
        await ask(server, "POST", "/session/new")

        refused = await ask(server, "POST", "/session/new")

        assert refused.headers["RateLimit"] == '"requests";r=9;t=1, "new-sessions";r=0;t=60'


async def test_exempt_clients_have_no_limits_and_no_headers_about_them(tmp_path: Path) -> None:
    async with limited(tmp_path, quota_exempt=("127.0.0.0/8",)) as server:
        answers = [await hello(server) for _ in range(10)]

        assert {answer.status for answer in answers} == {200}
        assert {limits_of(answer) for answer in answers} == {(None, None, None)}


async def test_clients_on_this_machine_are_exempt_by_default(other_server: RunningServer) -> None:
    assert limits_of(await hello(other_server)) == (None, None, None)


async def test_a_clock_that_is_set_back_does_not_refill(server: RunningServer) -> None:
    await spend(server, 3)

    server.clock.advance(-3600)

    assert await spend(server, 2) == [429, 429]


async def test_a_clock_that_is_set_back_refuses_no_caller(server: RunningServer) -> None:
    await spend(server, 3)
    server.clock.advance(-3600)
    refused = await hello(server)

    server.clock.advance(1)

    assert refused.headers["Retry-After"] == "1"
    assert await spend(server, 2) == [200, 429]


async def test_a_clock_that_is_set_back_a_little_delays_as_little(server: RunningServer) -> None:
    await spend(server, 2)

    server.clock.advance(-0.5)
    assert await spend(server, 1) == [429]
    server.clock.advance(0.5)
    assert await spend(server, 2) == [200, 429]


async def test_a_restart_does_not_refill(tmp_path: Path) -> None:
    clock = ManualClock()
    slow = {"requests_per_second": 0.1}
    async with limited(tmp_path, clock, **slow) as server:
        before = await spend(server, 3)
    async with limited(tmp_path, clock, **slow) as server:
        after = await spend(server, 1)
        clock.advance(10)
        recovered = await spend(server, 2)
    async with limited(tmp_path, clock, **slow) as server:
        again = await spend(server, 1)

    assert (before, after, recovered, again) == ([200] * 3, [429], [200, 429], [429])


async def test_a_restart_does_not_refill_what_was_spent_for_new_sessions(tmp_path: Path) -> None:
    clock = ManualClock()
    statuses = []

    for _ in range(3):
        async with limited(tmp_path, clock, sessions_burst=2, sessions_per_minute=1) as server:
            statuses.append((await ask(server, "POST", "/session/new")).status)

    assert statuses == [200, 200, 429]


async def test_a_limit_that_was_raised_counts_after_the_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with limited(tmp_path, clock) as server:
        assert await spend(server, 4) == [200, 200, 200, 429]

    async with limited(tmp_path, clock, requests_burst=100, requests_per_second=100) as server:
        answer = await hello(server)

        assert answer.headers["RateLimit"] == '"requests";r=96;t=1'
        assert await spend(server, 97) == [200] * 96 + [429]


async def test_a_lowered_limit_leaves_no_bucket_below_empty(tmp_path: Path) -> None:
    clock = ManualClock()
    async with limited(tmp_path, clock, requests_burst=100, requests_per_second=10) as server:
        assert await spend(server, 50) == [200] * 50

    async with limited(tmp_path, clock) as server:
        assert await spend(server, 1) == [429]
        clock.advance(1)
        assert await spend(server, 2) == [200, 429]


def test_a_limit_that_changes_while_the_server_runs_counts_from_then() -> None:
    quotas = Quotas(ManualClock())
    for _ in range(3):
        quotas.charge("client", (Limit("requests", burst=3, interval_us=60_000_000),))
        quotas.charge("other", (Limit("sessions", burst=3, interval_us=60_000_000),))
    raised = Limit("requests", burst=10, interval_us=1_000_000)

    charged = quotas.charge("client", (raised,))

    assert charged.charges[0].spending.remaining == 6
    assert charged.charges[0].spending.reset_us == 4_000_000
    saved = {bucket.limit_name: bucket.interval_us for bucket in quotas.take_unsaved()}
    assert saved == {"requests": 1_000_000, "sessions": 60_000_000}
