"""A problem links the page about its code only at ports that have the pages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bridge_server.assembly.application import build_app
from bridge_server.kit.headless.control import control_api
from bridge_server.kit.headless.wallet import HeadlessWallet
from bridge_server.settings.settings import Settings
from bridge_server.web.serving import runner_of
from tests.support.rows import each_row

LINK = b"Link: </docs/errors/"
UNREADABLE = b"GET / HTTP/1.1\r\nno field\r\n\r\n"
ABSENT = b"GET /absent HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Ports:
    """The port of each application of a server."""

    main: int
    others: tuple[int, ...]


@pytest.fixture
async def ports(tmp_path: Path) -> AsyncIterator[Ports]:
    settings = Settings(
        data_dir=tmp_path / "data", console=True, console_port=0, max_address_connections=1, quota_exempt=""
    )
    built = build_app(settings)
    assert built.console is not None
    applications = (
        built.application,
        built.metrics,
        built.console,
        built.lan_application("http://a.example"),
    )
    async with AsyncExitStack() as stack:
        found = [await _port_of(stack, application) for application in applications]
        yield Ports(found[0], tuple(found[1:]))


async def _port_of(stack: AsyncExitStack, application: web.Application) -> int:
    runner = runner_of(application)
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


async def _head(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.partition(b"\r\n\r\n")[0]


@each_row(("sent", "status"), [(ABSENT, b"404"), (UNREADABLE, b"400")])
async def test_only_the_port_with_the_pages_links_them(ports: Ports, sent: bytes, status: bytes) -> None:
    main = await _head(ports.main, sent)
    others = [await _head(port, sent) for port in ports.others]

    assert [head.split(b" ")[1] for head in (main, *others)] == [status] * 4
    assert [LINK in head for head in (main, *others)] == [True, False, False, False]


async def test_a_connection_over_the_limit_has_the_link_where_the_pages_are(ports: Ports) -> None:
    _, first = await asyncio.open_connection("127.0.0.1", ports.main)
    heads = [await _head(port, b"") for port in (ports.main, *ports.others)]
    first.close()
    await first.wait_closed()

    assert [head.split(b" ")[1] for head in heads] == [b"429"] * 4
    assert [LINK in head for head in heads] == [True, False, False, False]


async def test_the_wallets_control_api_links_nothing() -> None:
    async with (
        HeadlessWallet() as wallet,
        control_api(wallet, "127.0.0.1", 0) as facts,
        aiohttp.ClientSession() as http,
        http.get(f"{facts.url}/sessions") as answer,
    ):
        assert (answer.status, answer.content_type) == (401, "application/problem+json")
        assert "Link" not in answer.headers
