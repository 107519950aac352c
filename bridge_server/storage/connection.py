"""One SQLite connection, in aiosqlite's thread or in this one, with the settings of all; the database's
files; and SQLite's errors that mean 'not now', which ask the client to come back.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiosqlite
import structlog

from bridge_server.kernel.errors import UnavailableError

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

_LOST_RETRY_SECONDS = 30
_BUSY_RETRY_SECONDS = 2

Result = TypeVar("Result")

log = structlog.get_logger()

# Python looks for a way to convert every parameter of another type than str and int, three thousand
# instructions a time, unless one is registered: bytes stay what they are.
sqlite3.register_adapter(bytes, bytes)

# Failures that may pass, by SQLite's primary codes.
_PASSING = {
    sqlite3.SQLITE_BUSY: "the database is locked by another process",
    sqlite3.SQLITE_LOCKED: "the database is locked by another process",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk does not accept the write",
    sqlite3.SQLITE_READONLY: "the database file is not writable",
    sqlite3.SQLITE_CANTOPEN: "a database file cannot be opened",
    sqlite3.SQLITE_NOMEM: "the server is short of memory",
}

ORDERED_FAILURES: Mapping[str, tuple[int, str]] = {
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "locked": (sqlite3.SQLITE_BUSY, "database is locked"),
}
"""The failures that a test can order, by their names, with SQLite's codes and texts."""


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
    """Open the database file. Transactions are begun and ended by hand; the log is checkpointed elsewhere. A
    connection that `is_patient` waits a while for a lock of others. The caller must close the connection on
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


def open_here(path: Path, page_cache_kibibytes: int) -> sqlite3.Connection:
    """Open the database file in this thread, to read what takes microseconds. It waits for no lock."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0.0)
    try:
        connection.executescript(_PRAGMAS)
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA cache_size = -{page_cache_kibibytes}")
    except BaseException:
        connection.close()
        raise
    return connection


async def run(connection: aiosqlite.Connection, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Run `work` in the connection's thread: one hop for all statements, where aiosqlite hops for each."""
    results: list[Result] = []
    await connection.set_trace_callback(lambda raw: results.append(work(raw)))
    return results[0]


class LogState(NamedTuple):
    """The size of the log's file, and the time of its last change."""

    size_bytes: int
    written_at_ns: int


class LogFile:
    """The write-ahead log of a database, a file beside it; there may be none."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-wal")

    @property
    def state(self) -> LogState:
        """The file as it is now."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return LogState(0, 0)
        return LogState(found.st_size, found.st_mtime_ns)

    @property
    def size_bytes(self) -> int:
        """The file's size; 0 when there is none."""
        return self.state.size_bytes


class Presence:
    """Checks that the open database file and its log are still the files at their paths. A deleted file takes
    every write, and is gone when the server stops. The check follows every commit, and so is quick.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._opened: list[tuple[str, int, int]] = []
        self._is_lost = False

    def remember(self) -> None:
        """Take the files that are there now for the open files."""
        files = (self._database, LogFile(self._database).path)
        states = [(str(file), file.stat()) for file in files if file.exists()]
        self._opened = [(path, state.st_ino, state.st_dev) for path, state in states]

    @property
    def size_bytes(self) -> int:
        """The size of the database file; 0 when it is gone."""
        try:
            return self._database.stat().st_size
        except OSError:
            return 0

    def require(self) -> None:
        """Raise UnavailableError when a file is gone, or another is in its place."""
        try:
            for path, inode, device in self._opened:
                found = os.stat(path)  # noqa: PTH116 - a path object would make it twice as slow
                if found.st_ino != inode or found.st_dev != device:
                    break
            else:
                self._is_lost = False
                return
        except OSError:
            pass
        if not self._is_lost:
            self._is_lost = True
            log.error("database_lost", database=str(self._database), advice="stop the server and restore it")
        raise UnavailableError(
            "The database file was deleted or replaced while the server runs: nothing is stored. "
            "Its operator must stop the server, put the file back, and start it again.",
            _LOST_RETRY_SECONDS,
        )


def passing_failure(error: BaseException) -> str | None:
    """The reason why the database cannot serve at the moment; None for an error that will not pass."""
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else _PASSING.get(code & 0xFF)


def ordered_failure(name: str) -> sqlite3.OperationalError:
    """The error of SQLite that a test has ordered."""
    code, text = ORDERED_FAILURES[name]
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def unavailable(reason: str) -> UnavailableError:
    """The failure of a write that asks its caller to retry later."""
    return UnavailableError(f"Nothing was stored: {reason}. Try again shortly.", _BUSY_RETRY_SECONDS)


def unreadable(reason: str) -> UnavailableError:
    """The failure of a read that asks its caller to retry later."""
    return UnavailableError(f"The database cannot be read: {reason}. Try again shortly.", _BUSY_RETRY_SECONDS)
