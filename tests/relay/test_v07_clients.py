"""The published clients of generation 0.7, unmodified, run by Node.js and pointed at `/compat/v0.7`."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from urllib.parse import urlsplit

import orjson
import pytest

from tests.relay.polls import V07_PATH
from tests.support.clock import ManualClock
from tests.support.needs import PACKAGES, needs_node
from tests.support.rows import each_row
from tests.support.server import running_server, server_process

pytestmark = needs_node
_SECONDS = 240
SCENARIOS = [
    "pairing by URI",
    "approval",
    "rejection",
    "rejection after approval",
    "a call of each method",
    "the dapp's own methods",
    "a call that is rejected",
    "several pending calls",
    "a wallet woken by a push",
    "a session killed by the wallet",
    "a session killed by the dapp",
    "both sides reloaded",
    "two dapps and two wallets",
    "a plain wallet",
    "a plain dapp",
]
"""Those of `tests/node/v07_scenarios.js`."""


@asynccontextmanager
async def node(script: str, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A script of `tests/node` that talks to the server at `url`; it ends with the block."""
    process = await asyncio.create_subprocess_exec("node", PACKAGES / script, url, stdin=PIPE, stdout=PIPE)
    try:
        async with asyncio.timeout(_SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture(scope="module")
async def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What went wrong in each scenario, all of them played at once. The clients look at their own clock."""
    clock = ManualClock(start_ms=round(time() * 1000))
    data_dir = tmp_path_factory.mktemp("v07")
    async with (
        running_server(data_dir, clock, allow_private_webhooks=True) as server,
        node("v07_run.js", server.url) as process,
    ):
        printed, _ = await process.communicate()
    told: dict[str, str | None] = orjson.loads(printed)
    return told


@each_row("scenario", SCENARIOS)
async def test_the_published_clients_work(failures: dict[str, str | None], scenario: str) -> None:
    assert failures[scenario] is None, failures[scenario]


async def test_every_scenario_is_named_here(failures: dict[str, str | None]) -> None:
    assert list(failures) == SCENARIOS


async def test_the_published_clients_go_on_after_the_server_was_killed(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as server:
        async with node("v07_restart.js", f"{server.url}{V07_PATH}") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert await process.stdout.readline() == b"paired\n"

            server.kill()
            with server_process(tmp_path / "data", "--port", str(urlsplit(server.url).port)) as again:
                process.stdin.write(b"restarted\n")
                await process.wait()

            assert again.url == server.url
            assert process.returncode == 0
