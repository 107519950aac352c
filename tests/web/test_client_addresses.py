"""Rate limits count for the peer, or for the client that a trusted proxy names."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from structlog.testing import CapturingLogger

from bridge_server.web import addresses
from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

_ONE_REQUEST: dict[str, Any] = {"requests_burst": 1, "requests_per_second": 0.001}


@pytest.fixture
async def behind_proxy(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """Believes the proxies 127.0.0.0/8 and 10.0.0.0/8; every client has one request."""
    proxies = ("127.0.0.0/8", "10.0.0.0/8", "2001:db8:ffff::/48")
    async with running_server(
        tmp_path / "behind", trusted_proxies=proxies, quota_exempt=("192.0.2.0/24",), **_ONE_REQUEST
    ) as server:
        yield server


async def status_for(server: RunningServer, *forwarded: str) -> int:
    headers = CIMultiDict([("X-Forwarded-For", hops) for hops in forwarded])
    return (await ask(server, "GET", "/hello", headers=headers)).status


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["198.51.100.1"], ["198.51.100.1"]),
        (["198.51.100.1"], ["203.0.113.9, 198.51.100.1"]),
        (["203.0.113.1, 198.51.100.1"], ["203.0.113.2,198.51.100.1"]),
        (["nonsense, 198.51.100.1"], ["198.51.100.1"]),
        (["198.51.100.1"], ["198.51.100.1, 10.1.2.3"]),
        (["198.51.100.1"], ["203.0.113.9 ,  198.51.100.1 ,10.1.2.3,127.0.0.5"]),
        (["198.51.100.1", "10.1.2.3"], ["198.51.100.1"]),
        (["203.0.113.9", "198.51.100.1"], ["198.51.100.1"]),
        (["198.51.100.1"], ["::ffff:198.51.100.1"]),
        (["198.51.100.1"], ["198.51.100.1, ::ffff:10.1.2.3"]),
        (["2001:db8:1:2::1"], ["2001:db8:1:2:ffff:ffff:ffff:ffff"]),
        (["2001:db8:1:2::1"], ["2001:DB8:1:2:0:0:0:9, 2001:db8:ffff::1"]),
        (["198.51.100.1"], ["198.51.100.1:1234"]),
        (["198.51.100.1:1234"], ["198.51.100.1:5678, 10.1.2.3:80"]),
        (["2001:db8:1:2::1"], ["[2001:db8:1:2::9]:443"]),
        (["2001:db8:1:2::1"], ["[2001:db8:1:2::9], [2001:db8:ffff::1]:80"]),
        (["unknown"], [""]),
        (["unknown"], ["198.51.100.1, unknown"]),
        (["unknown"], ["198.51.100.1, "]),
        (["unknown"], ["198.51.100.256"]),
        (["unknown"], ["198.51.100.1:port"]),
        (["unknown"], ["[198.51.100.1"]),
        (["unknown"], ["é😀"]),
        ([], ["10.1.2.3"]),
        ([], ["10.1.2.3, 10.4.5.6"]),
    ],
)
async def test_one_client_has_one_bucket(
    behind_proxy: RunningServer, first: list[str], second: list[str]
) -> None:
    statuses = [await status_for(behind_proxy, *forwarded) for forwarded in (first, second)]

    assert statuses == [200, 429]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["198.51.100.1"], ["198.51.100.2"]),
        (["198.51.100.1, 198.51.100.2"], ["198.51.100.1"]),
        (["198.51.100.1"], []),
        (["unknown"], []),
        (["2001:db8:1:2::1"], ["2001:db8:1:3::1"]),
        (["::1"], ["::ffff:0.0.0.1"]),
        (["2001:db8::1, 198.51.100.1"], ["2001:db8::1, 198.51.100.2"]),
    ],
)
async def test_two_clients_have_two_buckets(
    behind_proxy: RunningServer, first: list[str], second: list[str]
) -> None:
    statuses = [await status_for(behind_proxy, *forwarded) for forwarded in (first, second)]

    assert statuses == [200, 200]


async def test_a_client_behind_a_proxy_may_be_exempt(behind_proxy: RunningServer) -> None:
    statuses = [await status_for(behind_proxy, "192.0.2.7") for _ in range(3)]

    assert statuses == [200] * 3


@pytest.mark.parametrize("hop", ["127.0.0.1:", "[::1", "unknown", "", "127.0.0.1, 127.0.0.1:x", "_hidden"])
async def test_a_last_hop_that_is_no_address_is_not_exempt(tmp_path: Path, hop: str) -> None:
    async with running_server(tmp_path, trusted_proxies=("127.0.0.1/32",), **_ONE_REQUEST) as server:
        statuses = [await status_for(server, hop) for _ in range(2)]

    assert statuses == [200, 429]


@each_row("hop", ["127.0.0.2:5678", "[::1]:80", "::1"])
async def test_the_port_of_a_hop_does_not_matter(tmp_path: Path, hop: str) -> None:
    async with running_server(tmp_path, trusted_proxies=("127.0.0.1/32",), **_ONE_REQUEST) as server:
        statuses = [await status_for(server, hop) for _ in range(2)]  # loopback is exempt

    assert statuses == [200, 200]


async def test_a_forwarded_header_of_a_client_is_not_believed(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=("192.0.2.0/24",), **_ONE_REQUEST) as server:
        statuses = [
            await status_for(server, address) for address in ("198.51.100.1", "198.51.100.2", "192.0.2.7")
        ]

    assert statuses == [200, 429, 429]


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


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    log = CapturingLogger()
    monkeypatch.setattr(addresses, "log", log)
    return log


async def test_an_exempt_peer_that_forwards_without_being_trusted_is_mentioned_once(
    tmp_path: Path, log: CapturingLogger
) -> None:
    async with running_server(tmp_path) as server:
        await ask(server, "GET", "/hello")
        assert log.calls == []

        for _ in range(3):
            await status_for(server, "198.51.100.1")

    (mention,) = log.calls
    assert mention.args == ("proxy_not_trusted",)
    assert mention.kwargs["peer"] == "127.0.0.1"


async def test_a_trusted_proxy_is_not_called_untrusted(
    behind_proxy: RunningServer, log: CapturingLogger
) -> None:
    await status_for(behind_proxy, "192.0.2.7")  # an exempt client behind it
    await status_for(behind_proxy, "198.51.100.1")

    assert log.calls == []
