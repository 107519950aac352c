"""A server in a process of its own, reached as one in this process is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time_ns

import aiohttp

from bridge_server.kit.testing.server import ServerProcess
from bridge_server.settings.settings import Settings
from tests.support.clock import ManualClock
from tests.support.command import WatchedServer
from tests.support.engines import settings_over
from tests.support.server import RunningServer


@asynccontextmanager
async def reached(process: ServerProcess | WatchedServer) -> AsyncIterator[RunningServer]:
    """Its clock is the machine's, of which this one stands where it was; that is near enough to sign in."""
    if isinstance(process, ServerProcess):
        settings = settings_over(process.data_dir)
    else:
        settings = Settings(data_dir=Path(process.facts["database"]).parent)
    clock = ManualClock(time_ns() // 1_000_000)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        yield RunningServer(process.url, settings, clock, client)
