"""Transactions that wait after the database has given their messages numbers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.cluster.processes import ClusterProcess, database_of
from tests.support.eventually import eventually

HELD = "held back"
"""A message with this text waits, whatever its topic."""

_WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
"""
_FUNCTION = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END'
"""
_TRIGGER = """
CREATE TRIGGER hold BEFORE INSERT ON {table}
FOR EACH ROW WHEN (position('held back'::bytea IN NEW.{column}) > 0) EXECUTE FUNCTION hold()
"""
_COLUMNS = {"topic_messages": "text", "irn_messages": "data"}


class HeldInserts:
    """The transactions of both processes, as another connection to their database sees them."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire

    async def wait(self, transactions: int) -> None:
        """Return once so many transactions wait for this, or for the turn of one that does."""

        async def wait() -> bool:
            return bool(await self._wire.fetchval(_WAITING) == transactions)

        await eventually(wait)

    async def release(self) -> None:
        """Let them go on."""
        await self._wire.execute("SELECT pg_advisory_unlock(1)")

    async def numbers(self, table: str, *texts: str) -> list[int]:
        """The numbers of the messages with these texts, in the order of the texts."""
        rows = await self._wire.fetch(f"SELECT {_COLUMNS[table]}, number FROM {table}")
        return [number for text in texts for data, number in rows if text.encode() in data]


@asynccontextmanager
async def held_inserts(process: ClusterProcess) -> AsyncIterator[HeldInserts]:
    """Hold back what the processes on the database of this one insert, while inside or until released."""
    async with database_of(process) as wire:
        await wire.execute("SELECT pg_advisory_lock(1)")
        await wire.execute(_FUNCTION)
        for table, column in _COLUMNS.items():
            await wire.execute(_TRIGGER.format(table=table, column=column))
        try:
            yield HeldInserts(wire)
        finally:
            await wire.execute("SELECT pg_advisory_unlock_all()")
            await wire.execute("DROP FUNCTION hold CASCADE")
