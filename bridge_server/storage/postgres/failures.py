"""The errors of PostgreSQL: which pass, which are worth another attempt, and what an operator can do."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import asyncpg

from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database import DatabaseAwayError, DatabaseRefusedError, url_without_password

_RETRY_AFTER_SECONDS = 2
OUT_OF_LOCKS = "53200"
DISK_FULL = "53100"
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
    "57P": "the database server is stopping, is starting or has ended the connection for an operator",
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
"""The errors of asyncpg when the database or the connection to it fails."""

CONNECTIONS = 9
"""The most connections that one process holds."""
_OLDEST_SERVER = 14
_VERSION_STEP = 10_000
_STATE = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'),
       pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,
       current_setting('server_encoding'),
       (SELECT least(current_setting('max_connections')::int
                         - current_setting('superuser_reserved_connections')::int,
                     coalesce(nullif(r.rolconnlimit, -1), 2147483647),
                     coalesce(nullif(d.datconnlimit, -1), 2147483647))
        FROM pg_roles AS r, pg_database AS d
        WHERE r.rolname = current_user AND d.datname = current_database())
"""


class LostConnectionError(ConnectionError):
    """There is no connection to the database at the moment."""


class StandbyError(ConnectionError):
    """Only a standby answers, which takes no writes, at the address of the database."""


class OutcomeUnknownError(UnavailableError):
    """The connection ended while a commit was under way, and the database could not be asked about it."""

    def __init__(self) -> None:
        super().__init__(
            "The connection to the database ended during the commit: it may have been stored. "
            "Check before you try again.",
            _RETRY_AFTER_SECONDS,
        )


class _Fault(NamedTuple):
    """The database's trouble, and its cure by an operator."""

    what: str
    advice: str
    passes: bool = False
    """Whether it may be over without a change of settings."""


_NEEDED = f"each process of the server needs {CONNECTIONS}"
_MORE = "raise max_connections, or the limit of its user or database (CONNECTION LIMIT)"
_PRIMARY = "name the primary; a URL that has several hosts finds it with ?target_session_attrs=read-write"
_STANDBY = _Fault("is a standby that only reads", _PRIMARY, passes=True)
_OF_STANDBYS = (StandbyError, asyncpg.exceptions.TargetServerAttributeNotMatched)
_ENDED = _Fault(
    "ended the connection", "is it stopping, or does something between end connections?", passes=True
)
_POOLER_WAITS = _Fault(
    "is behind a pooler that has no connection to it", "is the database up, and default_pool_size enough?",
    passes=True,
)  # fmt: skip
_POOLER_REFUSES = _Fault(
    "is behind a pooler that refuses settings", "name the database server itself in `database_direct`"
)
_WITHOUT_TLS = _Fault(
    "has no TLS",
    "set `ssl = on` in its postgresql.conf, or, where nobody can listen, sslmode=disable in `database`",
)
_SAYS_WITHOUT_TLS = "rejected SSL upgrade"
_SAYS_CLOSED = "closed"
_SAYS_SETTING = "startup parameter"

# The first that an error is an instance of.
_FAULTS: Mapping[type[BaseException] | tuple[type[BaseException], ...], _Fault] = {
    _OF_STANDBYS: _STANDBY,
    asyncpg.InvalidAuthorizationSpecificationError: _Fault(
        "refuses the login",
        "correct the user and the password in `database`, and see the server's pg_hba.conf",
    ),
    asyncpg.InvalidCatalogNameError: _Fault("is not there", "create it, as with createdb --encoding=UTF8"),
    asyncpg.TooManyConnectionsError: _Fault("has no free connection", f"{_NEEDED}; {_MORE}", passes=True),
    asyncpg.InsufficientPrivilegeError: _Fault(
        "refuses what the server does", "make its user the owner of the database"
    ),
    (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError): _Fault(
        "is behind a pooler of transactions that loses prepared statements",
        "PgBouncer has to be 1.21 or later with max_prepared_statements, or to pool sessions",
    ),
    asyncpg.CannotConnectNowError: _Fault("is starting or stopping", "try again shortly", passes=True),
    asyncpg.ReadOnlySQLTransactionError: _Fault("only reads", "name the primary", passes=True),
    asyncpg.UndefinedObjectError: _Fault(
        "knows no such parameter", "correct what follows the ? in `database`"
    ),
    asyncpg.InterfaceError: _Fault("cannot be used", "correct `database`"),
    (ssl.SSLEOFError, ssl.SSLZeroReturnError): _ENDED,
    ssl.SSLError: _Fault("fails the TLS handshake", "see sslmode and sslrootcert in `database`"),
    TimeoutError: _Fault(
        "does not answer", "is the host right, and does a firewall stand between?", passes=True
    ),
    OSError: _Fault("cannot be reached", "start it, or correct the host and the port", passes=True),
}


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


def not_now(error: BaseException) -> BaseException:
    """The error of a write for its caller: UnavailableError in place of one that passes."""
    reason = passing_failure(error)
    return unavailable(reason) if reason is not None else error


def not_read(error: BaseException) -> BaseException:
    """The error of a read for its caller: UnavailableError in place of one that passes."""
    reason = passing_failure(error)
    return error if reason is None else unasked("The database cannot be read", reason)


def unasked(what: str, reason: str) -> UnavailableError:
    """The failure of a query; unlike `unavailable`, it does not say that nothing was stored."""
    return UnavailableError(f"{what}: {reason}. Try again shortly.", _RETRY_AFTER_SECONDS)


def unavailable(reason: str) -> UnavailableError:
    """The failure that asks a caller to retry later."""
    return UnavailableError(f"Nothing was stored: {reason}. Try again shortly.", _RETRY_AFTER_SECONDS)


def sqlstate(error: BaseException) -> str:
    """The five characters of the error; empty when the database did not send it."""
    return str(getattr(error, "sqlstate", None) or "") if isinstance(error, asyncpg.PostgresError) else ""


def is_lost(error: BaseException) -> bool:
    """Whether the connection, and not the database, has failed."""
    return isinstance(error, OSError | TimeoutError) or sqlstate(error).startswith("08")


def lost_or(error: Exception, wire: Any) -> Exception:
    """The error, or LostConnectionError where it only says that the connection of asyncpg is closed. A text
    with half a surrogate pair is UnicodeEncodeError, as with SQLite.
    """
    if isinstance(error, asyncpg.DataError) and isinstance(error.__cause__, UnicodeEncodeError):
        return error.__cause__
    if wire.is_closed() and not isinstance(error, asyncpg.PostgresError):
        return LostConnectionError()
    return error


def is_retried(error: BaseException) -> bool:
    """Whether a transaction that met this error alone is run again."""
    return sqlstate(error) in _RETRIED


def is_stale(error: BaseException) -> bool:
    """Whether a statement was prepared before a migration, or on another connection of a pooler."""
    return sqlstate(error) in _STALE


def ends_connection(error: BaseException) -> bool:
    """Whether the server ends the connection with this error, or there is none any more."""
    return is_lost(error) or getattr(error, "severity_en", None) in _FATAL


# The reason why a database cannot be used, in one line that says what to do.


@contextmanager
def refusals_explained(url: str) -> Iterator[None]:
    """Raise DatabaseRefusedError for errors of driver and network, about the database of the URL."""
    try:
        yield
    except UnavailableError as error:
        raise _refused(url, error.detail, passes=True) from error
    except (*_OF_STANDBYS, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise _refused(url, _says(error), passes=passes(error)) from error


async def require_usable(connection: asyncpg.Connection, url: str) -> None:
    """Raise DatabaseRefusedError if this server cannot serve: it is too old, read-only or too small."""
    number, version, is_read_only, encoding, most = await connection.fetchrow(_STATE)
    if number < _OLDEST_SERVER * _VERSION_STEP:
        raise _refused(
            url,
            f"is on PostgreSQL {version}, and {_OLDEST_SERVER} is the oldest that works: upgrade its server",
        )
    if is_read_only:
        raise _refused(url, f"{_STANDBY.what}: {_STANDBY.advice}", passes=True)
    if encoding != "UTF8":
        raise _refused(url, f"is encoded as {encoding}: create it anew with ENCODING 'UTF8'")
    if most < CONNECTIONS:
        raise _refused(url, f"allows {most} connections, and {_NEEDED}: {_MORE}")


def what_to_do(error: BaseException) -> str:
    """Why the server cannot connect, and what an operator can do: no name and no address is in it."""
    fault = _fault(error)
    return f"{fault.what}: {fault.advice}" if fault.advice else fault.what


def passes(error: BaseException) -> bool:
    """Whether a database that could not be used because of this error may be usable later, as it is."""
    return _fault(error).passes


def _refused(url: str, reason: str, *, passes: bool = False) -> DatabaseRefusedError:
    kind = DatabaseAwayError if passes else DatabaseRefusedError
    return kind(f"the database {url_without_password(url)} {reason}")


def _says(error: BaseException) -> str:
    fault, said = _fault(error), _text(error)
    if said:
        fault = fault._replace(what=f"{fault.what} ({said})")
    return f"{fault.what}: {fault.advice}" if fault.advice else fault.what


def _fault(error: BaseException) -> _Fault:
    said = str(error)
    if isinstance(error, OSError) and _SAYS_WITHOUT_TLS in said:
        return _WITHOUT_TLS
    if isinstance(error, asyncpg.ProtocolViolationError):
        return _POOLER_REFUSES if _SAYS_SETTING in said else _POOLER_WAITS
    if isinstance(error, asyncpg.PostgresConnectionError) or (
        isinstance(error, asyncpg.InterfaceError) and _SAYS_CLOSED in said
    ):
        return _ENDED
    for kinds, fault in _FAULTS.items():
        if isinstance(error, kinds):
            return fault
    return _Fault("cannot be used", "", passes=passing_failure(error) is not None)


def _text(error: BaseException) -> str:
    """The error's text without what follows its first line; nothing where its class says all."""
    if isinstance(error, (TimeoutError, *_OF_STANDBYS)):
        return ""
    text = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return (text or str(error) or type(error).__name__).splitlines()[0].strip().rstrip(".")
