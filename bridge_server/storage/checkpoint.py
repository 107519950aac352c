"""Moves the write-ahead log into the database file, on a connection of its own, outside the write path.

Often and a little at a time: a commit that meets the flush of a long log waits for all of it.
"""

import asyncio
import sqlite3
from pathlib import Path

import aiosqlite
import structlog

from bridge_server.storage.connection import run

_INTERVAL_SECONDS = 0.25
_WORTHWHILE_BYTES = 2**20
_ALARMING_BYTES = 256 * 2**20

log = structlog.get_logger()


class Checkpointer:
    """Watches the size of the log and copies it back before it grows long."""

    def __init__(self, database: Path) -> None:
        self._log_file = database.with_name(database.name + "-wal")

    @property
    def log_bytes(self) -> int:
        """The size of the write-ahead log file."""
        try:
            return self._log_file.stat().st_size
        except FileNotFoundError:
            return 0

    async def run_forever(self, connection: aiosqlite.Connection) -> None:
        """Checkpoint whenever it is worthwhile; a failure is logged and tried again."""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            size = self.log_bytes
            if size >= _WORTHWHILE_BYTES:
                # TRUNCATE waits for readers and writers: only when the log never came to rest by itself.
                await _checkpoint(connection, "TRUNCATE" if size > _ALARMING_BYTES else "PASSIVE")


async def _checkpoint(connection: aiosqlite.Connection, mode: str) -> None:
    def work(raw: sqlite3.Connection) -> None:
        raw.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()

    try:
        await run(connection, work)
    except Exception as error:  # the next time may go better
        log.warning("checkpoint_failed", error=str(error), next_try_seconds=_INTERVAL_SECONDS)
