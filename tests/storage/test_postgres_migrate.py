"""PostgreSQL's schema is made once, whichever process comes first, and never by a program that is too old."""

import asyncio
from typing import Any

import pytest

from bridge_server.storage.migrate import Migration, NewerSchemaError
from bridge_server.storage.postgres.migrate import (
    MigrationError,
    SchemaState,
    migrate,
    packaged_migrations,
    require_known,
    schema_state,
)
from tests.support.postgres import PostgresServer, connected, needs_postgres

pytestmark = needs_postgres

NOTES = Migration(1, "0001_notes.sql", "-- oldest program: 1\nCREATE TABLE notes (name TEXT PRIMARY KEY);")
COLOURS = Migration(2, "0002_colours.sql", "ALTER TABLE notes ADD COLUMN colour TEXT;")
BROKEN = Migration(3, "0003_broken.sql", "CREATE TABLE colours (); INSERT INTO nowhere VALUES (1);")
RENAMED = Migration(3, "0003_renamed.sql", "-- oldest program: 3\nALTER TABLE notes RENAME TO papers;")


async def tables(connection: Any) -> set[str]:
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    return {row[0] for row in rows}


async def test_a_schema_is_made_from_nothing(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        assert await schema_state(connection) == SchemaState(0, 0)

        applied = await migrate(connection)

        assert applied == [each.version for each in packaged_migrations()]
        assert await migrate(connection) == []
        assert (await schema_state(connection)).version == applied[-1]
        assert {"sessions", "calls", "processes", "roles", "outbox_lanes"} <= await tables(connection)


async def test_processes_that_start_together_make_it_once(postgres: PostgresServer) -> None:
    url = await postgres.bare_database()

    async def start() -> list[int]:
        async with connected(url) as connection:
            return list(await migrate(connection))

    applied = await asyncio.gather(*(start() for _ in range(6)))

    assert sorted(applied, key=len) == [[]] * 5 + [[each.version for each in packaged_migrations()]]


async def test_an_upgrade_applies_what_is_missing(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        await migrate(connection, [NOTES])
        await connection.execute("INSERT INTO notes VALUES ('kept')")

        assert await migrate(connection, [NOTES, COLOURS]) == [2]
        assert [tuple(row) for row in await connection.fetch("SELECT name, colour FROM notes")] == [
            ("kept", None)
        ]


async def test_an_older_program_goes_on_where_a_change_leaves_it_able_to(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        await migrate(connection, [NOTES, COLOURS])

        assert await migrate(connection, [NOTES]) == []
        await require_known(connection, 1)


async def test_an_older_program_is_refused_where_a_change_ends_it(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        await migrate(connection, [NOTES, COLOURS, RENAMED])

        with pytest.raises(
            NewerSchemaError, match="has schema version 3, and this program knows versions up to 2"
        ):
            await migrate(connection, [NOTES, COLOURS])
        with pytest.raises(NewerSchemaError, match="restore the pg_dump that was made before the upgrade"):
            await require_known(connection, 2)


async def test_a_migration_that_fails_changes_nothing(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        with pytest.raises(MigrationError, match=r"0003_broken.sql failed, .* at version 2: .*nowhere"):
            await migrate(connection, [NOTES, COLOURS, BROKEN])

        assert await tables(connection) == {"schema_versions", "notes"}
        assert (await schema_state(connection)).version == 2
        assert await migrate(connection, [NOTES, COLOURS]) == []


async def test_a_database_with_tables_of_its_own_is_left_alone(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        await connection.execute("CREATE TABLE sessions (theirs TEXT)")

        with pytest.raises(MigrationError, match="must be the server's own"):
            await migrate(connection)
        assert await tables(connection) == {"sessions"}


async def test_limits_of_time_hold_again_after_a_migration(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        await connection.execute("SET lock_timeout = '2s'")
        before = await connection.fetchval("SELECT reset_val FROM pg_settings WHERE name = 'lock_timeout'")

        await migrate(connection)

        assert (
            await connection.fetchval("SELECT setting FROM pg_settings WHERE name = 'lock_timeout'") == before
        )
