"""PostgreSQL's errors: some mean «not now», some are worth another attempt, some end a connection."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from bridge_server.kernel.errors import UnavailableError

_RETRY_AFTER_SECONDS = 2

OUT_OF_LOCKS = "53200"

# An error's SQLSTATE, or its first characters: the longest that is listed counts.
_PASSING: Mapping[str, str] = {
    "08": "the connection to the database failed",
    "25006": "the database takes no writes, as a standby or one with default_transaction_read_only",
    "25P03": "the transaction paused for too long",
    "53": "the database is out of resources",
    "53100": "the disk of the database is full",
    "53200": "the database is short of memory",
    "53300": "the database has too many connections",
    "55P03": "another process holds a lock in the database",
    "57014": "the database took too long",
    "57P": "the database server is stopping, starting or was told to end the connection",
    "58": "the system of the database reports an error",
}

_STALE = frozenset({"0A000", "26000"})
_RETRIED = frozenset({"40001", "40P01", "23505", "23503", *_STALE})
"""The loser of a race finds, the next time, the rows that the winner wrote."""

_FATAL = frozenset({"FATAL", "PANIC"})

_LOST_REASON = "the connection to the database was lost"

WIRE_FAILURES = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # an exchange began after the server's last message, and before the end
)
"""What asyncpg raises when the database or the connection to it fails."""


class LostConnectionError(ConnectionError):
    """There is no connection to the database at the moment."""


class StandbyError(ConnectionError):
    """Only a standby answers, which takes no writes, at the address of the database."""


class OutcomeUnknownError(UnavailableError):
    """The connection ended while a commit was under way, and the database could not be asked about it."""

    def __init__(self) -> None:
        super().__init__(
            "The connection to the database ended during the commit: it may have been stored. "
            "Look before you try again.",
            _RETRY_AFTER_SECONDS,
        )


def sqlstate(error: BaseException) -> str:
    """The five characters of the error; empty when the database did not send it."""
    return str(getattr(error, "sqlstate", None) or "") if isinstance(error, asyncpg.PostgresError) else ""


def passing_failure(error: BaseException) -> str | None:
    """The reason why the database cannot serve at the moment; None for an error that will not pass."""
    if "query_wait_timeout" in str(error):
        return "the pooler has no free connection to the database: raise its default_pool_size"
    if is_lost(error):
        return _LOST_REASON
    code = sqlstate(error)
    for length in (5, 3, 2):
        reason = _PASSING.get(code[:length])
        if reason is not None:
            return reason
    return None


def is_lost(error: BaseException) -> bool:
    """Whether the connection, and not the database, has failed."""
    return isinstance(error, OSError | TimeoutError) or sqlstate(error).startswith("08")


def lost_or(error: Exception, wire: Any) -> Exception:
    """The error, or LostConnectionError where it only says that the connection of asyncpg is closed.

    A text with half a surrogate pair is UnicodeEncodeError, as with SQLite.
    """
    if isinstance(error, asyncpg.DataError) and isinstance(error.__cause__, UnicodeEncodeError):
        return error.__cause__
    if wire.is_closed() and not isinstance(error, asyncpg.PostgresError):
        return LostConnectionError()
    return error


def is_retried(error: BaseException) -> bool:
    """Whether a transaction alone that met this error is to be run again."""
    return sqlstate(error) in _RETRIED


def is_stale(error: BaseException) -> bool:
    """Whether a statement was prepared before a migration, or on another connection of a pooler."""
    return sqlstate(error) in _STALE


def ends_connection(error: BaseException) -> bool:
    """Whether the server ends the connection with this error, or there is none any more."""
    return is_lost(error) or getattr(error, "severity_en", None) in _FATAL


def unavailable(reason: str) -> UnavailableError:
    """The failure that asks a caller to retry later."""
    return UnavailableError(f"Nothing was stored: {reason}. Try again shortly.", _RETRY_AFTER_SECONDS)
