"""Two processes share every limit: what one has let through counts at the other."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.cluster.processes import ClusterProcess, Pair
from tests.support.asking import ask
from tests.support.postgres import needs_postgres
from tests.support.waiting import eventually

pytestmark = needs_postgres

REQUESTS, SESSIONS, BYTES = 300, 25, 50_000


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    return {
        "trusted_proxies": "127.0.0.0/8",
        "quota_exempt": "192.0.2.255/32",
        "requests_burst": REQUESTS,
        "requests_per_second": 0.001,
        "sessions_burst": SESSIONS,
        "sessions_per_minute": 0.001,
        "payload_bytes_per_address": BYTES,
    }


async def statuses(
    processes: Iterable[ClusterProcess], asked: str, *addresses: str, body: bytes | None = None
) -> Counter[int]:
    """How each process answers one request of each of these addresses, all at once."""
    method, path = asked.split()
    answers = await asyncio.gather(
        *(
            ask(process.server, method, path, body, {"X-Forwarded-For": address})
            for address in addresses
            for process in processes
        )
    )
    return Counter(answer.status for answer in answers)


async def test_new_sessions_of_many_addresses_are_exactly_as_many_as_allowed(pair: Pair) -> None:
    addresses = [f"198.51.100.{number}" for number in range(40)]
    found: Counter[int] = Counter()
    for _ in range(5):
        found += await statuses(pair, "POST /session/new", *addresses * 4)

    assert found == {200: SESSIONS * 40, 429: 40 * 40 - SESSIONS * 40}


async def test_requests_of_one_address_are_exactly_as_many_as_allowed(pair: Pair) -> None:
    """At first the other process may hold a lease, which it gives back a second later."""
    at_once = Counter[int]()
    for _ in range(4):
        at_once += await statuses(pair, "GET /hello", *["192.0.2.1"] * 50)
    assert REQUESTS - REQUESTS // 50 <= at_once[200] <= REQUESTS
    assert at_once[200] + at_once[429] == 400

    async def is_used_up() -> bool:
        at_once.update(await statuses(pair, "GET /hello", "192.0.2.1"))
        return at_once[200] >= REQUESTS

    await eventually(is_used_up)
    at_once.update(await statuses(pair, "GET /hello", *["192.0.2.1"] * 20))
    assert at_once[200] == REQUESTS


async def test_bytes_of_one_address_are_never_more_than_allowed(pair: Pair) -> None:
    body = b'{"encryptionPayload": "%s", "dappName": "Dapp"}' % (b"x" * 1_500)
    found = Counter[int]()
    for session in [await process.server.open_session() for process in pair]:
        found += await statuses(pair, f"POST /session/{session}/call/new", *["192.0.2.2"] * 30, body=body)

    assert found[200] + found[429] == 120
    assert BYTES - BYTES // 50 - 1_600 <= found[200] * 1_500 <= BYTES


async def test_a_process_that_is_killed_gives_nothing_back(pair: Pair) -> None:
    first, second = pair
    addresses = ["192.0.2.3"] * 10
    assert (await statuses(pair, "POST /session/new", *addresses))[200] == 20
    second.process.kill()
    await asyncio.to_thread(second.process.start)

    found = await statuses([second], "POST /session/new", *addresses)
    assert found == {200: SESSIONS - 20, 429: 10 - (SESSIONS - 20)}
    assert (await statuses([first], "POST /session/new", addresses[0]))[429] == 1
