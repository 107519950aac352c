"""A PostgreSQL database with the tables of `tests.storage.notes`."""

from collections.abc import AsyncIterator

import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage.postgres.database import PostgresDatabase
from tests.support.drivers import notes_url
from tests.support.postgres import PostgresServer


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of a database with the tables, which is empty."""
    return await notes_url(postgres)


@pytest.fixture
async def database(url: str, events: Events) -> AsyncIterator[PostgresDatabase]:
    """The database as one process has it."""
    database = PostgresDatabase(url, events, {})
    async with database.opened():
        yield database
