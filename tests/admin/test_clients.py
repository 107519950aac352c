"""Clients by address: the heaviest of them, and what one of them has left.

White-box: no test makes the 150,000 requests that fill the table, so one test fills it by itself.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge_server.web.recorder import MOST_ADDRESSES, PERIOD_SECONDS, Clients
from tests.admin.conftest import Observed, observing
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.asking import Answer, ask
from tests.support.clock import ManualClock


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    settings = {"trusted_proxies": "127.0.0.1/32", "quota_exempt": "none", "sessions_burst": 2}
    async with observing(tmp_path / "data", traffic=False, **settings) as running:
        yield running


async def ask_from(observed: Observed, address: str, method: str = "GET", path: str = "/hello") -> Answer:
    """A request that comes through the proxy."""
    return await ask(observed.admin.server, method, path, headers={"X-Forwarded-For": address})


async def clients(observed: Observed, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await observed.admin.get(f"/admin/clients{query}")).json["clients"]
    return found


async def test_the_heaviest_come_first_and_a_customers_addresses_together(observed: Observed) -> None:
    addresses = ["192.0.2.1"] * 2 + ["192.0.2.2"] * 5 + ["192.0.2.3"]
    for address in (*addresses, "2001:db8::", "2001:db8::1", "2001:db8::2"):
        await ask_from(observed, address)
    found = await clients(observed)
    one = (await observed.admin.get("/admin/clients/2001:db8::77")).json
    counts = [("192.0.2.2", 5), ("2001:db8::/64", 3), ("192.0.2.1", 2), ("192.0.2.3", 1)]
    assert [(each["address"], each["requests"]) for each in found] == counts
    assert [each["address"] for each in await clients(observed, "?limit=1")] == ["192.0.2.2"]
    assert found[0]["bytes"] > 0
    assert (one["address"], one["last_hour"]["requests"]) == ("2001:db8::/64", 3)
    assert (await observed.admin.get("/admin/clients/2001:db8::%2F64")).json == one


async def test_refusals_are_counted_by_limit_and_buckets_say_when_they_are_full(observed: Observed) -> None:
    for _ in range(5):
        await ask_from(observed, "192.0.2.1", "POST", "/session/new")
    await ask_from(observed, "192.0.2.2")

    (heaviest,) = await clients(observed, "?by=refused")
    (opener,) = await clients(observed, "?by=sessions")

    assert (heaviest["address"], heaviest["refused"]) == ("192.0.2.1", 3)
    assert heaviest["refused_by"] == {"new-sessions": 3}
    assert (opener["address"], opener["sessions"]) == ("192.0.2.1", 2)
    client = (await observed.admin.get("/admin/clients/192.0.2.1")).json
    buckets = {bucket["limit"]: bucket for bucket in client["buckets"]}
    assert buckets["new-sessions"]["remaining"] == 0
    assert buckets["new-sessions"]["full_at"] > "2027-01-15T08:00:00.000Z"
    assert buckets["payload-bytes"]["full_at"] is None
    assert {"requests", "new-clients", "subscription-bytes"} <= buckets.keys()
    for query in ("by=x", "last=2h", "last=0m", "last=", "limit=0"):
        problem = (await observed.admin.get(f"/admin/clients?{query}")).problem(400)
        assert query.partition("=")[0] in problem["detail"], query
    for address in ("x", "%00", "a" * 128):
        (await observed.admin.get(f"/admin/clients/{address}")).problem(400)


async def test_waits_and_sockets_are_counted_while_they_last(observed: Observed) -> None:
    server, session_id = observed.admin.server, await observed.bridge.open_session()
    poll = await observed.waiting_poll(f"/session/{session_id}?wait=20")
    (waiting,) = await clients(observed, "?by=waits")
    await observed.bridge.update(session_id)
    await poll
    (client,) = await clients(observed, "?by=waits")
    async with server.client.ws_connect(f"{server.url}/", headers={"X-Forwarded-For": "192.0.2.9"}):
        (connected,) = await clients(observed, "?by=sockets")
        shown = (await observed.admin.get("/admin/clients/192.0.2.9")).json
    assert (waiting["waiting"], waiting["waits"]) == (1, 1)
    assert (client["waiting"], client["waits"]) == (0, 1)
    assert (connected["address"], connected["sockets"], shown["open_sockets"]) == ("192.0.2.9", 1, 1)


async def test_after_an_hour_only_the_figures_since_the_start_are_left(observed: Observed) -> None:
    await ask_from(observed, "192.0.2.1")
    observed.admin.clock.advance(50 * 60)
    assert len(await clients(observed)) == 1
    await ask_from(observed, "192.0.2.2")
    assert len(await clients(observed)) == 2
    assert len(await clients(observed, "?last=10m")) == 1
    observed.admin.clock.advance(15 * 60)
    assert [each["address"] for each in await clients(observed, "?last=1h")] == ["192.0.2.2"]
    assert len(await clients(observed, "?last=start")) == 2


def test_the_tables_of_all_periods_and_the_names_of_limits_are_bounded() -> None:
    """White-box: no test makes 150,000 requests."""
    clock = ManualClock()
    clients = Clients(clock)
    for period in range(30):
        for number in range(5_000):
            clients.figures(f"{period}.{number}").requests += 1
        clients.figures("heavy").refuse("requests")
        clock.advance(PERIOD_SECONDS)
        clients.turn()
    for number in range(100):
        clients.figures("heavy").refuse(f"limit-{number}")

    assert len(clients.now) <= MOST_ADDRESSES
    assert len(clients._before) <= MOST_ADDRESSES
    assert len(clients._periods) < 12
    (heavy,) = clients.heaviest("refused", 5, last_seconds=None)
    assert (heavy.address, heavy.figures.refused) == ("heavy", 130)
    (lately,) = clients.heaviest("refused", 1, last_seconds=60)
    assert len(lately.figures.refused_by) <= 17
    assert lately.figures.refused_by["other"] == 84


async def test_a_request_is_said_how_it_came_and_an_exempt_address_has_no_buckets(tmp_path: Path) -> None:
    async with observing(tmp_path / "data", trusted_proxies="127.0.0.1") as observed:
        server = observed.admin.server
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "X-Forwarded-For": "203.0.113.7"}
        through_proxy = (await ask(server, "GET", "/admin/clients/me", b"", headers)).json
        await observed.bridge.get("/hello")
        directly = (await observed.admin.get("/admin/clients/me")).json
        client = (await observed.admin.get("/admin/clients/127.0.0.1")).json

    peer = {"peer": "127.0.0.1", "trusted": True}
    other = "203.0.113.7"
    assert through_proxy == {**peer, "forwarded_for": other, "address": other, "exempt": False}
    assert directly == {**peer, "forwarded_for": None, "address": "127.0.0.1", "exempt": True}
    assert (client["exempt"], client["buckets"], client["last_hour"]["requests"]) == (True, [], 1)
    assert client["connections"] == 0  # of exempt clients they are not counted
