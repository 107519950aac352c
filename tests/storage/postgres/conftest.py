"""PostgreSQL databases: with the tables of `tests.storage.notes`, or with those of the rooms."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from bridge_server.assembly.postgres_overrides import OVERRIDES
from bridge_server.kernel.events import Events
from bridge_server.storage.postgres.database import PostgresDatabase
from tests.support.drivers import notes_url
from tests.support.postgres import PostgresServer
from tests.support.proxies import CuttingProxy, open_cutting_proxy


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of a database with the tables, which is empty."""
    return await notes_url(postgres)


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[CuttingProxy]:
    async with open_cutting_proxy(url) as proxy:
        yield proxy


@pytest.fixture
async def database(url: str, events: Events) -> AsyncIterator[PostgresDatabase]:
    """The database as one process has it."""
    database = PostgresDatabase(url, events, {})
    async with database.opened():
        yield database


@pytest.fixture
async def processes(postgres: PostgresServer) -> AsyncIterator[Sequence[PostgresDatabase]]:
    """The database of the rooms as two processes have it."""
    url = await postgres.database("bridge")
    async with AsyncExitStack() as stack:
        found = [PostgresDatabase(url, Events(), OVERRIDES) for _ in range(2)]
        for process in found:
            await stack.enter_async_context(process.opened())
        yield found
