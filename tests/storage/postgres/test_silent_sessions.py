"""What a frozen process has left in the database is ended by the others."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from bridge_server.storage.postgres.listening import end_silent_sessions, name_of_ear
from bridge_server.storage.postgres.migrate import migrate
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres

pytestmark = needs_postgres


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database("bridge", migrate)


@asynccontextmanager
async def session(url: str, name: str, statement: str = "SELECT 1") -> AsyncIterator[Any]:
    """A session of that name that has run the statement, and then asks nothing."""
    wire = await asyncpg.connect(url, server_settings={"application_name": name})
    try:
        await wire.execute(statement)
        yield wire
    finally:
        wire.terminate()


async def test_the_ear_of_a_silent_process_and_its_transactions_are_ended_and_nothing_else(url: str) -> None:
    frozen, other = "bridge-server/7", "bridge-server/70"
    async with AsyncExitStack() as stack:
        ear = await stack.enter_async_context(
            session(url, name_of_ear(frozen), "SELECT pg_advisory_lock(1, 2)")
        )
        writing = await stack.enter_async_context(session(url, frozen, "BEGIN"))
        left = [
            await stack.enter_async_context(session(url, name, statement))
            for name, statement in [(frozen, "SELECT 1"), (other, "BEGIN"), ("psql", "BEGIN")]
        ]
        async with connected(url) as wire:
            assert not await end_silent_sessions(wire, 3_600)

            assert await end_silent_sessions(wire, 0)

            async def are_ended() -> bool:
                return bool(ear.is_closed() and writing.is_closed())

            await eventually(are_ended)
            assert await wire.fetchval("SELECT pg_try_advisory_lock(1, 2)")
            assert not await end_silent_sessions(wire, 0)
        assert [await each.fetchval("SELECT 1") for each in left] == [1, 1, 1]
