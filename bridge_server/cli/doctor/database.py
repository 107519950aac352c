"""The database file and its log."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from bridge_server.cli.amounts import size_text
from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, fail, ok, warn
from bridge_server.storage.backup import read_only
from bridge_server.storage.log_file import LogFile
from bridge_server.storage.migrate import packaged_migrations, schema_version

_SUBJECT = "database"
_WHOLE_CHECK_BYTES = 2**30
"""A larger file is checked without comparing each index with its table, which would take minutes."""
_LONG_LOG_BYTES = 256 * 2**20
_NEARLY_FULL = 0.9


def check_database(seen: Examination) -> Iterator[Finding]:
    """Its schema, its size, its integrity, its log and its limit."""
    file = seen.settings.database_file
    if not file.exists():
        text = f"there is none at {file}"
        yield fail(_SUBJECT, text, "the server makes it at its start; or name its directory with --data-dir")
        return
    try:
        with closing(read_only(file)) as connection:
            yield from _checked(seen, connection)
    except (sqlite3.Error, OSError) as error:
        cure = "stop the server, and restore a backup with `bridge-server restore`"
        yield fail(_SUBJECT, f"{file} cannot be read ({error})", cure)


def _checked(seen: Examination, connection: sqlite3.Connection) -> Iterator[Finding]:
    size = seen.settings.database_file.stat().st_size
    version, newest = schema_version(connection), packaged_migrations()[-1].version
    pragma = "integrity_check(1)" if size < _WHOLE_CHECK_BYTES else "quick_check(1)"
    verdict = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    log_bytes = LogFile(seen.settings.database_file).size_bytes
    if verdict != "ok":
        cure = "stop the server, and restore a backup with `bridge-server restore`"
        yield fail(_SUBJECT, f"it is damaged ({verdict})", cure)
    elif version > newest:
        yield fail(
            _SUBJECT, f"schema {version} is newer than this program's {newest}", "run the newer program"
        )
    elif version < newest:
        yield warn(_SUBJECT, f"schema {version}, and this program has {newest}", "restart the server")
    else:
        yield ok(_SUBJECT, f"schema {version}, {size_text(size)}, integrity ok; log {size_text(log_bytes)}")
    if log_bytes > _LONG_LOG_BYTES:
        cure = "a program holds an old state open: look for a backup that hangs"
        yield warn(_SUBJECT, f"the write-ahead log has {size_text(log_bytes)}", cure)
    yield from _limit(seen, connection, log_bytes)


def _limit(seen: Examination, connection: sqlite3.Connection, log_bytes: int) -> Iterator[Finding]:
    limit = seen.settings.database_limit
    if limit is None:
        return
    page, pages, free = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_size", "page_count", "freelist_count")
    )
    used = (pages - free) * page + log_bytes
    text = f"{size_text(used)} of database_limit ({size_text(limit)}) are in use"
    cure = "raise database_limit, or lower lifetimes such as call_ttl"
    if used > limit:
        yield fail(_SUBJECT, f"{text}: nothing is added", cure)
    elif used > limit * _NEARLY_FULL:
        yield warn(_SUBJECT, text, cure)
    else:
        yield ok(_SUBJECT, text)
