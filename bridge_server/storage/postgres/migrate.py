"""Brings PostgreSQL's schema up to date: numbered SQL files, applied in order, each in its transaction.

Several processes may start together, and an older program may still be at work: a file that it cannot work
with begins with the comment `-- oldest program: N`, the number of the first file that a program must know.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

import asyncpg
import structlog

from bridge_server.storage.database import DatabaseAwayError, DatabaseRefusedError, url_without_password
from bridge_server.storage.migrate import Migration, NewerSchemaError, migrations_of
from bridge_server.storage.postgres.failures import WIRE_FAILURES, passes, refusals_explained, require_usable

Connection: TypeAlias = Any
"""A connection of asyncpg, direct: a pooler between transactions would lose the lock."""

_LOCK = (0x62726467, 1)  # a pair, which no turn of a transaction can be: turns are single numbers
_LONGEST_SECONDS = 3_600.0
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_COMMAND_SECONDS = 20.0
_OLDEST_PROGRAM = re.compile(r"-- oldest program: ([0-9]+)\n", re.ASCII)
_TIME_LIMITS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
_STATE = "SELECT coalesce(max(version), 0), coalesce(max(oldest_program), 0) FROM schema_versions"
_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_versions (
    version INTEGER PRIMARY KEY,
    oldest_program INTEGER NOT NULL,
    applied_at_ms BIGINT NOT NULL
)
"""
_APPLIED = """
INSERT INTO schema_versions (version, oldest_program, applied_at_ms)
VALUES ($1, $2, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
"""

log = structlog.get_logger()


class MigrationError(Exception):
    """A migration failed, and the schema is as it was before that file."""


class SchemaState(NamedTuple):
    """The last migration that a database has had, and the first that a program must know; 0 without any."""

    version: int
    oldest_program: int


@asynccontextmanager
async def opened(
    database: AbstractAsyncContextManager[object], url: str, *, may_create: bool
) -> AsyncIterator[None]:
    """Bring the database of the URL up to date, and enter the context that holds it open. One without any
    schema is refused unless `may_create`. Raises DatabaseRefusedError, NewerSchemaError.
    """
    shown = url_without_password(url)
    async with examined(url) as connection:
        if not may_create and not (await schema_state(connection)).version:
            advice = "start the server, which makes them, or correct `database`"
            raise DatabaseRefusedError(f"the database {shown} has no tables: {advice}")
        try:
            applied = await migrate(connection)
        except MigrationError as error:
            has_passing_cause = error.__cause__ is not None and passes(error.__cause__)
            kind = DatabaseAwayError if has_passing_cause else DatabaseRefusedError
            raise kind(f"the database {shown}: {error}") from error
        if applied:
            log.info("schema_upgraded", database=shown, version=applied[-1])
    async with AsyncExitStack() as stack:
        with refusals_explained(url):
            await stack.enter_async_context(database)
        yield


@asynccontextmanager
async def examined(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a usable database, for the length of the block. Raises DatabaseRefusedError."""
    with refusals_explained(url):
        connection = await asyncpg.connect(
            url, timeout=_CONNECT_SECONDS, command_timeout=_COMMAND_SECONDS, statement_cache_size=0
        )
        try:
            await require_usable(connection, url)
            yield connection
        finally:
            with suppress(*WIRE_FAILURES):
                await connection.close(timeout=_CLOSE_SECONDS)


def packaged_migrations() -> Sequence[Migration]:
    """The migrations of this version, in order."""
    return migrations_of("bridge_server.storage.postgres")


async def schema_state(connection: Connection) -> SchemaState:
    """The state of the schema, read from the database."""
    if await connection.fetchval("SELECT to_regclass('schema_versions')::text") is None:
        return SchemaState(0, 0)
    return SchemaState(*await connection.fetchrow(_STATE))


async def migrate(connection: Connection, migrations: Sequence[Migration] | None = None) -> Sequence[int]:
    """Create or upgrade the schema; returns the numbers of the migrations that were applied here. Another
    process that does this at the moment is waited for. Raises NewerSchemaError when the database needs a
    newer program; MigrationError when a migration fails.
    """
    known = packaged_migrations() if migrations is None else migrations
    newest = known[-1].version
    await _require_older(connection, newest)
    async with _turn(connection):
        state = await _require_older(connection, newest)
        due = [migration for migration in known if migration.version > state.version]
        for migration in due:
            state = await _apply(connection, migration, state)
    return [migration.version for migration in due]


async def require_known(connection: Connection, newest: int) -> None:
    """Raise NewerSchemaError when a program that knows no later migration must not use the database."""
    await _require_older(connection, newest)


async def _require_older(connection: Connection, newest: int) -> SchemaState:
    state = await schema_state(connection)
    if state.oldest_program > newest:
        database = await connection.fetchval("SELECT current_database()")
        raise NewerSchemaError(
            f"The database {database} has schema version {state.version}, and this program knows versions up "
            f"to {newest}: run the newer program, or restore the pg_dump that was made before the upgrade."
        )
    return state


@asynccontextmanager
async def _turn(connection: Connection) -> AsyncIterator[None]:
    """The only migration of the database under way. A file may take long: no time limit holds."""
    for limit in _TIME_LIMITS:
        await connection.execute(f"SET {limit} = 0")
    await connection.execute(f"SELECT pg_advisory_lock{_LOCK}", timeout=_LONGEST_SECONDS)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.execute(f"SELECT pg_advisory_unlock{_LOCK}")
            for limit in _TIME_LIMITS:
                await connection.execute(f"RESET {limit}")


async def _apply(connection: Connection, migration: Migration, before: SchemaState) -> SchemaState:
    stated = _OLDEST_PROGRAM.match(migration.sql)
    after = SchemaState(migration.version, int(stated[1]) if stated else before.oldest_program)
    try:
        async with connection.transaction():
            await connection.execute(_VERSIONS)
            await connection.execute(migration.sql, timeout=_LONGEST_SECONDS)
            await connection.execute(_APPLIED, *after)
    except asyncpg.PostgresError as error:
        raise MigrationError(
            f"{migration.name} failed, and the schema is still at version {before.version}: {error}. "
            "The database must be the server's own, and its user must be allowed to create tables in it."
        ) from error
    return after
