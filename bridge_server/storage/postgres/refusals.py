"""The reason why a PostgreSQL database cannot be used, in one line that says what to do."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import asyncpg

from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database_url import url_without_password
from bridge_server.storage.postgres.failures import StandbyError
from bridge_server.storage.refusal import DatabaseRefusedError

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


class _Fault(NamedTuple):
    """What the database does, and what an operator can do."""

    what: str
    advice: str


_NEEDED = f"each process of the server needs {CONNECTIONS}"
_MORE = "raise max_connections, or the limit of its user or database (CONNECTION LIMIT)"
_PRIMARY = "name the primary; a URL that has several hosts finds it with ?target_session_attrs=read-write"
_STANDBY = _Fault("is a standby that only reads", _PRIMARY)
_OF_STANDBYS = (StandbyError, asyncpg.exceptions.TargetServerAttributeNotMatched)

# The first that an error is an instance of.
_FAULTS: Mapping[type[BaseException] | tuple[type[BaseException], ...], _Fault] = {
    _OF_STANDBYS: _STANDBY,
    asyncpg.InvalidAuthorizationSpecificationError: _Fault(
        "refuses the login",
        "correct the user and the password in `database`, and see the server's pg_hba.conf",
    ),
    asyncpg.InvalidCatalogNameError: _Fault(
        "is not there", "create it, as with createdb --encoding=UTF8"
    ),
    asyncpg.TooManyConnectionsError: _Fault("has no free connection", f"{_NEEDED}; {_MORE}"),
    asyncpg.InsufficientPrivilegeError: _Fault(
        "refuses what the server does", "make its user the owner of the database"
    ),
    asyncpg.ProtocolViolationError: _Fault(
        "is behind a pooler that refuses settings", "name the database server itself in `database_direct`"
    ),
    (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError): _Fault(
        "is behind a pooler of transactions that loses prepared statements",
        "PgBouncer has to be 1.21 or later with max_prepared_statements, or to pool sessions",
    ),
    asyncpg.CannotConnectNowError: _Fault("is starting or stopping", "try again shortly"),
    asyncpg.ReadOnlySQLTransactionError: _Fault("only reads", "name the primary"),
    asyncpg.UndefinedObjectError: _Fault(
        "knows no such parameter", "correct what follows the ? in `database`"
    ),
    asyncpg.InterfaceError: _Fault("cannot be used", "correct `database`"),
    ssl.SSLError: _Fault("fails the TLS handshake", "see sslmode and sslrootcert in `database`"),
    TimeoutError: _Fault("does not answer", "is the host right, and does a firewall stand between?"),
    OSError: _Fault("cannot be reached", "start it, or correct the host and the port"),
}  # fmt: skip


@contextmanager
def refusals_told(url: str) -> Iterator[None]:
    """Raise DatabaseRefusedError in place of errors of the driver and the network.

    `url` is the database that is being opened.
    """
    try:
        yield
    except UnavailableError as error:
        raise _refused(url, error.detail) from error
    except (*_OF_STANDBYS, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise _refused(url, _says(error)) from error


async def require_usable(connection: asyncpg.Connection, url: str) -> None:
    """Raise DatabaseRefusedError if this server cannot serve: it is too old, read-only or too small."""
    number, version, is_read_only, encoding, most = await connection.fetchrow(_STATE)
    if number < _OLDEST_SERVER * _VERSION_STEP:
        raise _refused(
            url,
            f"is on PostgreSQL {version}, and {_OLDEST_SERVER} is the oldest that works: upgrade its server",
        )
    if is_read_only:
        raise _refused(url, f"{_STANDBY.what}: {_STANDBY.advice}")
    if encoding != "UTF8":
        raise _refused(url, f"is encoded as {encoding}: create it anew with ENCODING 'UTF8'")
    if most < CONNECTIONS:
        raise _refused(url, f"allows {most} connections, and {_NEEDED}: {_MORE}")


def what_to_do(error: BaseException) -> str:
    """Why the server cannot connect, and what an operator can do: no name and no address is in it."""
    fault = _fault(error)
    return f"{fault.what}: {fault.advice}" if fault.advice else fault.what


def _refused(url: str, reason: str) -> DatabaseRefusedError:
    return DatabaseRefusedError(f"the database {url_without_password(url)} {reason}")


def _says(error: BaseException) -> str:
    """What there is to say of the error, with its own text."""
    fault, said = _fault(error), _text(error)
    if said:
        fault = fault._replace(what=f"{fault.what} ({said})")
    return f"{fault.what}: {fault.advice}" if fault.advice else fault.what


def _fault(error: BaseException) -> _Fault:
    for kinds, fault in _FAULTS.items():
        if isinstance(error, kinds):
            return fault
    return _Fault("cannot be used", "")


def _text(error: BaseException) -> str:
    """The error's text without what follows its first line; nothing where its class says all."""
    if isinstance(error, (TimeoutError, *_OF_STANDBYS)):
        return ""
    text = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return (text or str(error) or type(error).__name__).splitlines()[0].strip().rstrip(".")
