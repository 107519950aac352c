"""The page at the root, which a browser is shown, and what every other client gets there."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.dev.conftest import running_dev
from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

_BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

Shown = Callable[..., Awaitable[str]]


async def front(server: RunningServer, **headers: str) -> str:
    answer = await ask(server, "GET", "/", headers={**_BROWSER, **headers})
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    return answer.body.decode()


def links(page: str) -> dict[str, str]:
    """The targets of links by their texts."""
    return {text: target for target, text in re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>([^<]*)</a>', page)}


@pytest.fixture
def other(tmp_path: Path) -> Shown:
    """Starts a server with other settings."""

    async def shown(settings: Mapping[str, Any], **headers: str) -> str:
        async with running_server(tmp_path / "data", **settings) as server:
            return await front(server, **headers)

    return shown


async def test_a_browser_is_shown_addresses_to_copy_and_links_that_lead_somewhere(
    server: RunningServer,
) -> None:
    page = await front(server)

    address = server.url.removeprefix("http://")
    assert f'relayUrl: "<span>ws://{address}</span>' in page
    assert f'bridge: "<span>http://{address}</span>' in page
    assert {"Docs", "API", "Inbox"} <= links(page).keys()
    for target in {*links(page).values(), *re.findall(r' (?:src|href)="(/[^"]*)"', page)}:
        assert (await ask(server, "GET", target)).status == 200, target


@each_row("accept", ["*/*", "application/json", "text/plain", ""])
async def test_other_clients_get_a_short_page(server: RunningServer, accept: str) -> None:
    answer = await ask(server, "GET", "/", headers={"Accept": accept})

    assert b"<h1>Bridge Server 1." in answer.body
    assert "Accept" in answer.headers["Vary"]


async def test_the_address_is_the_one_that_the_browser_names_or_the_public_url(other: Shown) -> None:
    assert "ws://bridge.test:81</span>" in await other({}, Host="bridge.test:81")
    assert "ws://localhost</span>" in await other({}, Host="<script>")
    public = await other({"public_url": "https://bridge.example"}, Host="127.0.0.1")
    assert "wss://bridge.example</span>" in public
    assert "https://bridge.example</span>" in public


@each_row(
    ("settings", "host", "target"),
    [
        ({"console": True}, "bridge.test", "/console"),
        ({"console": True, "console_port": 4711}, "localhost:1", "http://localhost:4711/console"),
        ({"console": True, "console_port": 4711}, "bridge.test", None),
        ({"console": True, "console_port": 0}, "localhost:1", None),
        ({}, "localhost:1", None),
    ],
)
async def test_the_console_is_linked_where_the_visitor_can_open_it(
    other: Shown, settings: dict[str, Any], host: str, target: str | None
) -> None:
    assert links(await other(settings, Host=host)).get("Console") == target


@each_row(("host", "is_told"), [("127.0.0.1:1", True), ("[::1]:1", True), ("bridge.test", False)])
async def test_on_this_machine_it_says_how_the_console_is_turned_on(
    other: Shown, host: str, is_told: bool
) -> None:
    assert ("BRIDGE_CONSOLE=on" in await other({}, Host=host)) == is_told


async def test_in_dev_the_inbox_is_the_demo_projects_and_phones_get_no_links(tmp_path: Path) -> None:
    async with running_dev(tmp_path / "data") as dev:
        _, page = await dev.ask("GET", f"{dev.url}/", **_BROWSER)
        _, for_phones = await dev.ask("GET", f"{dev.lan_url}/", **_BROWSER)

    assert links(page)["Inbox"] == "/inbox/?project=demo"
    assert "<h1>Bridge Server 1." in for_phones
