"""Databases with the server's own tables, one of each driver, for the tests of stores."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.kit.testing.server import place_schema
from bridge_server.storage.database import Database
from bridge_server.storage.sqlite import SqliteDatabase
from tests.support.postgres import PostgresServer

SQLITE, POSTGRES = "sqlite", "postgres"
ENGINES = (SQLITE, POSTGRES)


@asynccontextmanager
async def schema_database(
    request: pytest.FixtureRequest, directory: Path, events: Events
) -> AsyncIterator[Database]:
    """An empty database of the engine that the fixture's parameter names."""
    if request.param == SQLITE:
        place_schema(directory / "bridge.sqlite3")
        file = SqliteDatabase(directory / "bridge.sqlite3", events)
        async with file.opened():
            yield file
    else:
        async with _on_postgres(request.getfixturevalue("postgres"), events) as database:
            yield database


@asynccontextmanager
async def _on_postgres(server: PostgresServer, events: Events) -> AsyncIterator[Database]:
    # asyncpg is optional: only a test that has a server to talk to imports the driver.
    from bridge_server.assembly.postgres_overrides import OVERRIDES  # noqa: PLC0415
    from bridge_server.storage.postgres.database import PostgresDatabase  # noqa: PLC0415
    from bridge_server.storage.postgres.migrate import migrate  # noqa: PLC0415

    database = PostgresDatabase(await server.database("bridge", migrate), events, OVERRIDES)
    async with database.opened():
        yield database
