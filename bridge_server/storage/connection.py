"""One SQLite connection in aiosqlite's thread, with the settings that every connection here has."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

SQLITE_VERSION = sqlite3.sqlite_version
BUSY_TIMEOUT_SECONDS = 2.0
PAGE_CACHE_KIBIBYTES = 16_384
LOG_LIMIT_BYTES = 64 * 2**20
"""The size to which a longer log is cut when it is begun anew."""
_CACHED_STATEMENTS = 256
_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA wal_autocheckpoint = 0;
PRAGMA temp_store = MEMORY;
"""

Result = TypeVar("Result")


class _CallingConnection(sqlite3.Connection):
    """Calls its trace callback once and at once, with itself, instead of keeping it for each statement.

    aiosqlite runs a connection's methods in the connection's thread, and has no public way to run anything
    else there. Nothing is traced here, so that this method is free.
    """

    def set_trace_callback(self, callback: Callable[[Any], object] | None) -> None:
        if callback is not None:
            callback(self)


async def open_connection(
    path: Path, page_cache_kibibytes: int = PAGE_CACHE_KIBIBYTES, *, is_patient: bool = True
) -> aiosqlite.Connection:
    """Open the database file. Transactions are begun and ended by hand; the log is checkpointed elsewhere.

    A connection that `is_patient` waits a while for a lock of others. The caller must close the connection on
    every path: its thread would keep the interpreter alive.
    """
    connection = await aiosqlite.connect(
        path,
        isolation_level=None,
        timeout=BUSY_TIMEOUT_SECONDS if is_patient else 0.0,
        cached_statements=_CACHED_STATEMENTS,
        factory=_CallingConnection,
    )
    try:
        await connection.executescript(_PRAGMAS)
        await connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
        await connection.execute(f"PRAGMA cache_size = -{page_cache_kibibytes}")
    except BaseException:
        await connection.close()
        raise
    return connection


async def run(connection: aiosqlite.Connection, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Run `work` in the connection's thread: one hop, however many statements it executes.

    aiosqlite's other methods hop once a statement, which is dearer than the statement itself.
    """
    results: list[Result] = []
    await connection.set_trace_callback(lambda raw: results.append(work(raw)))
    return results[0]
