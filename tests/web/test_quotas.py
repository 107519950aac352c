"""Quotas per client address: how many requests and new sessions, who is counted, and what is reported.

White-box: how often refusals are reported has no setting.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from structlog.testing import CapturingLogger, capture_logs

from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.web import addresses
from bridge_server.web import request_log as module
from bridge_server.web.limits import Quotas
from bridge_server.web.request_log import Refusals
from tests.support.asking import Answer, ask
from tests.support.clock import ManualClock
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

LIMITED: dict[str, Any] = {"quota_exempt": (), "requests_burst": 3, "requests_per_second": 1}
"""Three requests at once and one more a second; nobody is exempt."""


def limited(
    data_dir: Path, clock: ManualClock | None = None, **settings: Any
) -> AbstractAsyncContextManager[RunningServer]:
    return running_server(data_dir, clock, **{**LIMITED, **settings})


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return LIMITED


async def hello(server: RunningServer) -> Answer:
    return await ask(server, "GET", "/hello")


async def spend(server: RunningServer, count: int) -> list[int]:
    return [(await hello(server)).status for _ in range(count)]


def limits_of(answer: Answer) -> tuple[str | None, ...]:
    return tuple(answer.headers.get(name) for name in ("Retry-After", "RateLimit", "RateLimit-Policy"))


async def test_answers_tell_where_the_client_stands_and_capacity_returns(server: RunningServer) -> None:
    answers = [await hello(server) for _ in range(4)]

    policy = '"requests";q=3;w=3'
    assert [limits_of(answer) for answer in answers] == [
        (None, '"requests";r=2;t=1', policy),
        (None, '"requests";r=1;t=2', policy),
        (None, '"requests";r=0;t=3', policy),
        ("1", '"requests";r=0;t=3', policy),
    ]
    assert answers[3].problem(429)["type"].endswith(":limit-exceeded")
    assert await spend(server, 50) == [429] * 50
    for seconds, passed in ((0.999, 0), (0.001, 1), (2, 2), (3600, 3)):
        server.clock.advance(seconds)
        assert await spend(server, passed + 1) == [200] * passed + [429]


async def test_failures_are_charged_but_neither_operators_nor_preflights(server: RunningServer) -> None:
    charged = [
        await ask(server, "PUT", "/session/a", b"{"),
        await ask(server, "HEAD", "/session/a"),
        await ask(server, "POST", "/subscribe", bytes(262_145)),
        await ask(server, "PUT", "/session/a", b"{"),
    ]
    free = [
        await ask(server, "GET", "/livez"),
        await ask(server, "GET", "/readyz"),
        await ask(server, "OPTIONS", "/hello"),
    ]

    assert [answer.status for answer in charged] == [400, 404, 413, 429]
    left = [answer.headers["RateLimit"][-7:] for answer in charged]
    assert left == ["r=2;t=1", "r=1;t=2", "r=0;t=3", "r=0;t=3"]
    assert [answer.status for answer in free] == [200, 200, 204]
    assert {limits_of(answer) for answer in free} == {(None, None, None)}


async def test_new_sessions_have_a_limit_of_their_own(tmp_path: Path) -> None:
    async with limited(tmp_path, requests_burst=10, sessions_burst=2, sessions_per_minute=2) as server:
        answers = [await ask(server, "POST", "/session/new") for _ in range(3)]
        other = await hello(server)
        server.clock.advance(29)
        early = await ask(server, "POST", "/session/new")
        server.clock.advance(1)
        later = await ask(server, "POST", "/session/new")

    assert [answer.status for answer in (*answers, other, early, later)] == [200, 200, 429, 200, 429, 200]
    policy = '"requests";q=10;w=10, "new-sessions";q=2;w=60'
    assert [limits_of(answer) for answer in answers] == [
        (None, '"requests";r=9;t=1, "new-sessions";r=1;t=30', policy),
        (None, '"requests";r=8;t=2, "new-sessions";r=0;t=60', policy),
        ("30", '"requests";r=8;t=2, "new-sessions";r=0;t=60', policy),
    ]
    assert early.headers["Retry-After"] == "1"


async def test_clients_on_this_machine_are_exempt_by_default(other_server: RunningServer) -> None:
    assert limits_of(await hello(other_server)) == (None, None, None)


@pytest.mark.own_server
async def test_a_clock_that_is_set_back_refuses_no_caller_for_long(server: RunningServer) -> None:
    await spend(server, 3)
    server.clock.advance(-3600)
    refused = await hello(server)
    assert await spend(server, 1) == [429]
    server.clock.advance(1)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert await spend(server, 2) == [200, 429]


def test_buckets_that_were_full_stay_full_when_the_clock_is_set_back() -> None:
    clock, limits = ManualClock(), (Limit("calls", 3, MICROSECONDS),)
    quotas = Quotas(clock)
    quotas.charge("a", limits)
    clock.advance(60)
    quotas.forget_full()
    clock.advance(-3600)
    assert quotas.charge("a", limits).charges[0].spending.remaining == 2


async def test_a_restart_does_not_refill(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = {"requests_per_second": 0.1, "sessions_burst": 2, "sessions_per_minute": 0.1}
    async with limited(tmp_path, clock, **settings) as server:
        sessions = [(await ask(server, "POST", "/session/new")).status for _ in range(2)]
        before = await spend(server, 2)
    async with limited(tmp_path, clock, **settings) as server:
        after = await spend(server, 1)
        clock.advance(20)
        recovered = await spend(server, 1)
        sessions.append((await ask(server, "POST", "/session/new")).status)
    async with limited(tmp_path, clock, **settings) as server:
        again = await spend(server, 2)

    assert (before, after, recovered, again) == ([200, 429], [429], [200], [200, 429])
    assert sessions == [200, 200, 429]


async def test_a_limit_that_was_raised_counts_after_the_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with limited(tmp_path, clock) as server:
        assert await spend(server, 4) == [200, 200, 200, 429]
    async with limited(tmp_path, clock, requests_burst=100, requests_per_second=100) as server:
        answer = await hello(server)
        assert answer.headers["RateLimit"] == '"requests";r=96;t=1'
        assert await spend(server, 97) == [200] * 96 + [429]


_FULL_AGAIN = 10_000
_ONE_REQUEST: dict[str, Any] = {"requests_burst": 1, "requests_per_second": 0.001}


async def status_for(server: RunningServer, *forwarded: str) -> int:
    headers = CIMultiDict([("X-Forwarded-For", hops) for hops in forwarded])
    return (await ask(server, "GET", "/hello", headers=headers)).status


async def test_a_client_has_a_bucket_behind_proxies_unless_it_is_exempt(tmp_path: Path) -> None:
    one = [  # two requests of one client, by what its proxies say
        (["198.51.100.1"], ["203.0.113.9, 198.51.100.1"]),
        (["nonsense, 198.51.100.1"], ["198.51.100.1"]),
        (["198.51.100.1"], ["203.0.113.9 ,  198.51.100.1 ,10.1.2.3,127.0.0.5"]),
        (["198.51.100.1", "10.1.2.3"], ["198.51.100.1"]),
        (["203.0.113.9", "198.51.100.1"], ["198.51.100.1"]),
        (["198.51.100.1"], ["::ffff:198.51.100.1, ::ffff:10.1.2.3"]),
        (["2001:db8:1:2::1"], ["2001:DB8:1:2:0:0:0:9, 2001:db8:ffff::1"]),
        (["198.51.100.1:1234"], ["198.51.100.1:5678, 10.1.2.3:80"]),
        (["2001:db8:1:2::1"], ["[2001:db8:1:2::9], [2001:db8:ffff::1]:80"]),
        *((["unknown"], [hops]) for hops in (
            "", "198.51.100.1, unknown", "198.51.100.256", "198.51.100.1:port", "[198.51.100.1",
        )),
        ([], ["10.1.2.3, 10.4.5.6"]),
    ]  # fmt: skip
    two = [  # requests of two clients
        (["198.51.100.1, 198.51.100.2"], ["198.51.100.1"]), (["198.51.100.1"], []), (["unknown"], []),
        (["2001:db8:1:2::1"], ["2001:db8:1:3::1"]), (["::1"], ["::ffff:0.0.0.1"]),
    ]  # fmt: skip
    proxies, exempt = ("127.0.0.0/8", "10.0.0.0/8", "2001:db8:ffff::/48"), ("192.0.2.0/24",)
    async with running_server(
        tmp_path, trusted_proxies=proxies, quota_exempt=exempt, **_ONE_REQUEST
    ) as server:
        for hops in one + two:
            server.clock.advance(_FULL_AGAIN)
            statuses = [await status_for(server, *forwarded) for forwarded in hops]
            assert statuses == [200, 429 if hops in one else 200], hops
        assert [await status_for(server, "192.0.2.7") for _ in range(3)] == [200] * 3


async def test_a_last_hop_of_loopback_is_exempt_and_one_that_is_no_address_is_not(tmp_path: Path) -> None:
    exempt = ["127.0.0.2:5678", "[::1]:80", "::1"]
    others = ["127.0.0.1:", "[::1", "unknown", "", "127.0.0.1, 127.0.0.1:x"]
    async with running_server(tmp_path, trusted_proxies=("127.0.0.1/32",), **_ONE_REQUEST) as server:
        statuses = {}
        for hop in (*exempt, *others):
            server.clock.advance(_FULL_AGAIN)
            statuses[hop] = [await status_for(server, hop) for _ in range(2)]
    assert [hop for hop, found in statuses.items() if found == [200, 200]] == exempt
    assert [hop for hop, found in statuses.items() if found == [200, 429]] == others


async def test_a_peer_that_is_no_proxy_is_not_believed(tmp_path: Path) -> None:
    async with running_server(
        tmp_path, trusted_proxies=("127.0.0.2/32",), quota_exempt=(), **_ONE_REQUEST
    ) as server:
        connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        async with aiohttp.ClientSession(connector=connector) as proxy:
            headers = {"X-Forwarded-For": "198.51.100.1"}
            through = [await ask(server, "GET", "/hello", headers=headers, client=proxy) for _ in range(2)]
        beside = [await status_for(server, address) for address in ("198.51.100.1", "198.51.100.2")]
    assert [answer.status for answer in through] == [200, 429]
    assert beside == [200, 429]


async def test_an_untrusted_proxy_is_mentioned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(addresses, "log", log)
    async with running_server(tmp_path) as server:
        await hello(server)
        assert log.calls == []
        for _ in range(3):
            await status_for(server, "198.51.100.1")
    (mention,) = log.calls
    assert mention.args == ("proxy_not_trusted",)
    assert mention.kwargs["peer"] == "127.0.0.1"


def test_refusals_are_counted_of_so_many_addresses_and_shown_of_the_ten_with_the_most() -> None:
    often = [str(number) for number in range(20) for _ in range(number + 1)]
    for most, refused, shown in (
        (2, ["a", "b", "c", "d", "b"], {"b": 2, "a": 1}),
        (100, often, {str(number): number + 1 for number in range(19, 9, -1)}),
    ):
        refusals = Refusals(most_addresses=most)
        for address in refused:
            refusals.count(address, "requests")
        assert refusals.take() == (len(refused), shown)
        assert refusals.take() == (0, {})


async def test_refused_addresses_are_one_log_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.05)
    with capture_logs() as lines:
        async with limited(tmp_path / "data", **_ONE_REQUEST) as server:
            statuses = await spend(server, 4)
            await eventually(lambda: sum(int(line.get("requests", 0)) for line in lines) == 3)
    reports = [line for line in lines if line["event"] == "requests_refused"]
    assert statuses == [200, 429, 429, 429]
    assert all(line["addresses"] == {"127.0.0.1": line["requests"]} for line in reports)
    assert {line["log_level"] for line in reports} == {"warning"}


async def test_refusals_before_the_end_are_logged(tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with limited(tmp_path / "data", **_ONE_REQUEST) as server:
            await asyncio.gather(*(hello(server) for _ in range(3)))
    (line,) = [line for line in lines if line["event"] == "requests_refused"]
    assert (line["requests"], line["addresses"], line["other_addresses"]) == (2, {"127.0.0.1": 2}, 0)
