"""Copies an SQLite database, which no server uses, into an empty PostgreSQL database: all or nothing."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import asyncpg

from bridge_server.storage.data_directory import held
from bridge_server.storage.database import DatabaseRefusedError, Row
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.failures import WIRE_FAILURES, ends_connection
from bridge_server.storage.postgres.migrate import MigrationError, examined
from bridge_server.storage.postgres.migrate import migrate as migrate_postgres
from bridge_server.storage.postgres.statements import encoded

_OWN_TABLES = frozenset({"processes", "roles", "outbox_lanes", "schema_versions"})
"""Tables of several processes, which a file does not have."""
_ROWS_AT_A_TIME = 5_000
_LONGEST_SECONDS = 24 * 3_600.0
_CUT_OFF = (
    "the connection to PostgreSQL ended during the copy: nothing of it is kept there, and the file is as it "
    "was. Find out why it ended, and run the command again"
)
_CUT_OFF_AT_THE_END = (
    "the connection to PostgreSQL ended while the copy was committed: all of it is there, or nothing. Run "
    "the command again: it copies, or says that the database is not empty, and then everything was copied"
)

# A table comes after the tables that its rows refer to.
_TABLES = """
WITH RECURSIVE below (name, depth) AS (
    SELECT tablename::text, 0 FROM pg_tables WHERE schemaname = current_schema()
    UNION
    SELECT conrelid::regclass::text, depth + 1 FROM pg_constraint
    JOIN below ON confrelid = name::regclass WHERE contype = 'f' AND conrelid <> confrelid
)
SELECT name FROM below GROUP BY name ORDER BY max(depth), name
"""
_SEQUENCES = """
SELECT sequence.relname::text, owner.relname::text, attname::text FROM pg_class AS sequence
JOIN pg_depend ON objid = sequence.oid AND deptype IN ('a', 'i') AND refclassid = 'pg_class'::regclass
JOIN pg_class AS owner ON owner.oid = refobjid
JOIN pg_attribute ON attrelid = owner.oid AND attnum = refobjsubid
WHERE sequence.relkind = 'S' AND sequence.relnamespace = current_schema()::regnamespace
"""
# The greatest numbers that were given. Clients may have acknowledged messages that were never stored.
_GIVEN = """
SELECT name, max(seq) FROM (SELECT name, seq FROM sqlite_sequence
    UNION ALL SELECT 'irn_messages', coalesce(max(reached), 0) FROM irn_subscriptions) GROUP BY name
"""
_SERVERS = """
SELECT count(DISTINCT number) FROM processes
WHERE seen_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 30000
"""

Report = Callable[[str, int], None]
"""Called with the name of the table, and how many more of its rows have been copied."""


def rows_of(file: Path) -> int:
    """The number of rows to copy. Raises sqlite3.Error."""
    with closing(sqlite3.connect(file)) as source:
        names = source.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        counts = [source.execute(f"SELECT count(*) FROM {name}") for (name,) in names]  # noqa: S608 - a table's name
        return sum(count.fetchone()[0] for count in counts)


def copied_to_postgres(file: Path, url: str, report: Report) -> Mapping[str, int]:
    """Copy the database file to the database of the URL; returns the rows of each table. Raises
    DataDirectoryError if a server uses the file; DatabaseRefusedError, NewerSchemaError, sqlite3.Error.
    """
    with held(file.parent):
        migrate(file, packaged_migrations())
        return asyncio.run(_copied(file, url, report))


async def _copied(file: Path, url: str, report: Report) -> Mapping[str, int]:
    async with examined(url) as connection:
        try:
            await migrate_postgres(connection)
        except MigrationError as error:
            raise DatabaseRefusedError(str(error)) from error
        is_copied = False
        try:
            with closing(sqlite3.connect(file)) as source:
                async with connection.transaction():
                    copied = await _copy_all(connection, source, report)
                    is_copied = True
        except WIRE_FAILURES as error:
            if not _is_cut_off(connection, error):
                raise
            raise DatabaseRefusedError(_CUT_OFF_AT_THE_END if is_copied else _CUT_OFF) from error
        with suppress(*WIRE_FAILURES):  # the planner can do without for a while
            await connection.execute("ANALYZE", timeout=_LONGEST_SECONDS)
        return copied


def _is_cut_off(connection: Any, error: BaseException) -> bool:
    return ends_connection(error) or bool(connection.is_closed())


async def _copy_all(connection: Any, source: sqlite3.Connection, report: Report) -> Mapping[str, int]:
    tables = [name for (name,) in await connection.fetch(_TABLES) if name not in _OWN_TABLES]
    await _require_empty(connection, tables)
    copied = {table: await _copy_table(connection, source, table, report) for table in tables}
    await _set_sequences(connection, dict(source.execute(_GIVEN)))
    await _compare(connection, copied)
    return copied


async def _require_empty(connection: Any, tables: list[str]) -> None:
    await connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
    if await connection.fetchval(_SERVERS):
        raise DatabaseRefusedError("a server uses the PostgreSQL database: stop it, or name another database")
    for table in tables:
        if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {table})"):  # noqa: S608 - a table's name
            reason = f"is not empty, its table {table} has rows: name an empty one"
            raise DatabaseRefusedError(f"the PostgreSQL database {reason}")


async def _copy_table(connection: Any, source: sqlite3.Connection, table: str, report: Report) -> int:
    columns = [name for _, name, *_ in source.execute(f"PRAGMA table_info({table})")]
    count = 0
    for rows in _slices(source, f"SELECT {', '.join(columns)} FROM {table}"):  # noqa: S608 - names of the schema
        try:
            await connection.copy_records_to_table(
                table, records=rows, columns=columns, timeout=_LONGEST_SECONDS
            )
        except (asyncpg.DataError, asyncpg.PostgresError) as error:
            if _is_cut_off(connection, error):
                raise
            raise DatabaseRefusedError(f"rows of the table {table} cannot be copied: {error}") from error
        count += len(rows)
        report(table, len(rows))
    return count


def _slices(source: sqlite3.Connection, query: str) -> Iterator[list[Row]]:
    cursor = source.execute(query)
    while rows := cursor.fetchmany(_ROWS_AT_A_TIME):
        yield [tuple(encoded(row)) for row in rows]


async def _set_sequences(connection: Any, given: Mapping[str, int]) -> None:
    """Have each sequence go on behind the greatest number that was ever given."""
    for sequence, table, column in await connection.fetch(_SEQUENCES):
        if table in _OWN_TABLES:
            continue
        copied = await connection.fetchval(f"SELECT max({column}) FROM {table}")  # noqa: S608 - names of the schema
        greatest = max(copied or 0, given.get(table, 0))
        if greatest > 0:
            await connection.execute(f"SELECT setval('{sequence}', {greatest})")


async def _compare(connection: Any, copied: Mapping[str, int]) -> None:
    for table, count in copied.items():
        found = await connection.fetchval(f"SELECT count(*) FROM {table}", timeout=_LONGEST_SECONDS)  # noqa: S608
        if found != count:
            reason = f"of {count} rows of the table {table} {found} arrived: nothing is kept"
            raise DatabaseRefusedError(reason)
