"""The page of clients: the heaviest addresses, and what is left to one of them."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.asking import ask
from tests.support.console_client import ConsoleClient
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

PATH = "/console/clients"


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[ConsoleClient]:
    """The console of a server behind a proxy, so that tests choose the addresses of clients."""
    async with running_server(
        tmp_path / "data", console=True, trusted_proxies=["127.0.0.1"], quota_exempt=["127.0.0.0/8"]
    ) as server:
        yield await ConsoleClient(server).sign_in()


async def ask_from(server: RunningServer, address: str, method: str, path: str) -> int:
    return (await ask(server, method, path, headers={"X-Forwarded-For": address})).status


def addresses(page: str) -> list[str]:
    return re.findall(r'<th scope="row" class="mono"><a [^>]*>([^<]*)</a>', page)


async def test_addresses_are_listed_by_the_figure_that_is_chosen(proxied: ConsoleClient) -> None:
    server = proxied.server
    for _ in range(3):
        await ask_from(server, "192.0.2.1", "GET", "/hello")
    await ask_from(server, "2001:db8::7", "POST", "/session/new")

    by_requests, by_sessions = await proxied.page(PATH), await proxied.page(f"{PATH}?by=sessions&last=start")

    assert addresses(by_requests)[:2] == ["192.0.2.1", "2001:db8::/64"]
    assert addresses(by_sessions)[0] == "2001:db8::/64"
    assert 'href="/console/clients?by=sessions&amp;last=start" aria-current="true"' in by_sessions


async def test_an_address_has_its_figures_and_its_buckets(proxied: ConsoleClient) -> None:
    await ask_from(proxied.server, "192.0.2.1", "POST", "/session/new")

    page = await proxied.page(f"{PATH}/192.0.2.1?by=bytes&last=5m")

    assert re.search(r'<th scope="row">Sessions</th><td data-label="Last hour" class="number">1<', page)
    row = re.search(r'<th scope="row">new-sessions</th>.*?</tr>', page)
    assert row is not None
    assert re.search(r'data-label="Full again"><time datetime="2027-01-15T08:0', row[0])
    assert re.search(r'<th scope="row">payload-bytes</th>.*data-label="Full again">now<', page)


async def test_a_refused_address_has_the_limits_that_refused_it(proxied: ConsoleClient) -> None:
    statuses = [await ask_from(proxied.server, "192.0.2.1", "POST", "/session/new") for _ in range(200)]
    assert statuses[-1] == 429

    page = await proxied.page(f"{PATH}/192.0.2.1?by=refused")

    assert f"<dt>new-sessions</dt><dd>{statuses.count(429)}</dd>" in page


async def test_an_ipv6_network_is_opened_by_its_link(proxied: ConsoleClient) -> None:
    await ask_from(proxied.server, "2001:db8::7", "GET", "/hello")
    link = re.search(r'href="(/console/clients/2001[^"]*)"', await proxied.page(PATH))
    assert link is not None

    page = await proxied.page(link[1].replace("&amp;", "&"))

    assert '<h2 class="mono">2001:db8::/64</h2>' in page
    assert 'aria-current="true">2001:db8::/64' in page


async def test_an_exempt_address_has_no_limits(console: ConsoleClient) -> None:
    page = await console.page(f"{PATH}/127.0.0.1")

    assert "<code>quota_exempt</code>" in page


@each_row("query", ["?by=weight", "?last=2y", "?last="])
async def test_an_unknown_order_or_period_says_so_and_the_list_stays(
    console: ConsoleClient, query: str
) -> None:
    answer = await console.get(PATH + query)

    assert answer.status == 400
    assert "The query parameter" in answer.body.decode()
    assert 'id="list"' in answer.body.decode()


async def test_a_text_that_is_no_address_is_refused(console: ConsoleClient) -> None:
    answer = await console.get(f"{PATH}/nobody")

    assert answer.status == 400
    assert "is no address of a client" in answer.body.decode()


async def test_figures_above_999_have_spaces_between_thousands(console: ConsoleClient) -> None:
    await console.get("/openapi.json")
    page = await console.page(f"{PATH}?by=bytes")

    assert re.search(r'data-label="Bytes" class="number">\d+\N{NO-BREAK SPACE}\d{3}', page)
