"""The contract of every driver: it says whether it has work."""

import asyncio

from bridge_server.storage.database import Database
from tests.storage.notes import put, text_of
from tests.support.eventually import eventually


async def becomes_idle(database: Database) -> None:
    async def is_idle() -> bool:
        return not database.is_busy

    await eventually(is_idle)


async def test_a_database_is_busy_while_it_writes(database: Database) -> None:
    before = database.is_busy

    writing = asyncio.ensure_future(database.transaction(put("a", "text")))
    await asyncio.sleep(0)

    assert (before, database.is_busy) == (False, True)
    await writing
    await becomes_idle(database)


async def test_a_database_is_busy_while_it_reads(database: Database) -> None:
    reading = asyncio.ensure_future(text_of(database, "a"))
    await asyncio.sleep(0)

    assert database.is_busy
    await reading
    await becomes_idle(database)
