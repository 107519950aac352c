"""The reason why a PostgreSQL database cannot be used, in one line that says what to do."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database_url import url_without_password
from bridge_server.storage.refusal import DatabaseRefusedError

CONNECTIONS = 9
"""The most connections that one process holds."""

_OLDEST_SERVER = 14
_VERSION_STEP = 10_000
_LOGIN = "correct the user and the password in `database`, and see the server's pg_hba.conf"
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


@contextmanager
def refusals_told(url: str) -> Iterator[None]:
    """Raise DatabaseRefusedError in place of errors of the driver and the network.

    `url` is the database that is being opened.
    """
    try:
        yield
    except UnavailableError as error:
        raise _refused(url, error.detail) from error
    except asyncpg.PostgresError as error:
        raise _refused(url, _server_says(error)) from error
    except asyncpg.InterfaceError as error:
        raise _refused(url, f"cannot be used ({_line(error)}): correct `database`") from error
    except (OSError, TimeoutError) as error:
        raise _refused(url, _network_says(error)) from error


async def require_usable(connection: asyncpg.Connection, url: str) -> None:
    """Raise DatabaseRefusedError if this server cannot serve: it is too old, read-only or too small."""
    number, version, is_read_only, encoding, most = await connection.fetchrow(_STATE)
    if number < _OLDEST_SERVER * _VERSION_STEP:
        raise _refused(
            url,
            f"is on PostgreSQL {version}, and {_OLDEST_SERVER} is the oldest that works: upgrade its server",
        )
    if is_read_only:
        raise _refused(
            url, "is a standby that only reads: name the primary; a URL that has several hosts finds it with "
            "?target_session_attrs=read-write",
        )  # fmt: skip
    if encoding != "UTF8":
        raise _refused(url, f"is encoded as {encoding}: create it anew with ENCODING 'UTF8'")
    if most < CONNECTIONS:
        raise _refused(url, _too_few(f"allows {most} connections"))


def _refused(url: str, reason: str) -> DatabaseRefusedError:
    return DatabaseRefusedError(f"the database {url_without_password(url)} {reason}")


def _server_says(error: asyncpg.PostgresError) -> str:
    said = _line(error)
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return f"refuses the login ({said}): {_LOGIN}"
        case asyncpg.InvalidCatalogNameError():
            return f"is not there ({said}): create it, as with createdb --encoding=UTF8"
        case asyncpg.TooManyConnectionsError():
            return _too_few(f"has no free connection ({said})")
        case asyncpg.InsufficientPrivilegeError():
            return f"refuses what the server does ({said}): make its user the owner of the database"
        case asyncpg.CannotConnectNowError():
            return f"is starting or stopping ({said}): try again shortly"
        case asyncpg.ReadOnlySQLTransactionError():
            return f"only reads ({said}): name the primary"
        case asyncpg.UndefinedObjectError():
            return f"knows no such parameter ({said}): correct what follows the ? in `database`"
    return f"cannot be used ({said})"


def _network_says(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"fails the TLS handshake ({_line(error)}): see sslmode and sslrootcert in `database`"
    if isinstance(error, TimeoutError):
        return "does not answer: is the host right, and does a firewall stand between?"
    return f"cannot be reached ({error.strerror or _line(error)}): start it, or correct the host and the port"


def _too_few(found: str) -> str:
    return (
        f"{found}, and each process of the server needs {CONNECTIONS}: raise max_connections, or the limit "
        "of its user or database (CONNECTION LIMIT)"
    )


def _line(error: BaseException) -> str:
    """The first line of the error's text."""
    return (str(error) or type(error).__name__).splitlines()[0].strip().rstrip(".")
