"""SQLite's errors that mean «not now»: they become an answer that asks the client to come back."""

import sqlite3
from collections.abc import Mapping

from bridge_server.kernel.errors import UnavailableError

_RETRY_AFTER_SECONDS = 2
_RETRY_WHEN_FULL_SECONDS = 60

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


class DatabaseFullError(UnavailableError):
    """The database holds as much as the operator lets it."""

    code = "database-full"
    title = "The database is full"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"Nothing was stored: the database holds {limit_bytes} bytes or more, which is its limit. Its "
            "operator can raise database_limit or lower lifetimes such as call_ttl; else wait until "
            "something expires.",
            _RETRY_WHEN_FULL_SECONDS,
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
    """The failure that asks a caller to retry later."""
    return UnavailableError(f"Nothing was stored: {reason}. Try again shortly.", _RETRY_AFTER_SECONDS)
