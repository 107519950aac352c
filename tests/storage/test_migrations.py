"""The schema is brought up to date in whole steps, never backwards, and is one schema for both databases."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest

from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.migrate import Migration, NewerSchemaError, migrate, packaged_migrations
from bridge_server.storage.postgres.migrate import MigrationError, require_known, schema_state
from bridge_server.storage.postgres.migrate import migrate as migrate_postgres
from bridge_server.storage.postgres.migrate import packaged_migrations as packaged_for_postgres
from tests.storage.notes import ask
from tests.support.postgres import PostgresServer, connected

_NOTES = "-- Notes.\nCREATE TABLE notes (name TEXT PRIMARY KEY);\nINSERT INTO notes VALUES ('kept');\n"
FIRST = Migration(1, "0001_notes.sql", _NOTES)
SECOND = Migration(2, "0002_text.sql", "ALTER TABLE notes ADD COLUMN text TEXT NOT NULL DEFAULT 'x';")
_TAGS = """
CREATE TABLE tags (note TEXT REFERENCES notes (name), tag TEXT);
CREATE INDEX tags_by_note ON tags (note);
UPDATE notes SET text = 'filled';
"""
THIRD = Migration(3, "0003_tags.sql", _TAGS)
CHAIN = [FIRST, SECOND, THIRD]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bridge.sqlite3"


def version(file: Path) -> object:
    return ask(file, "PRAGMA user_version")[0][0]


def schema(file: Path) -> list[tuple[object, ...]]:
    return ask(file, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")


@pytest.mark.parametrize("known", [1, 2])
def test_an_older_file_is_copied_before_the_missing_steps_are_taken(file: Path, known: int) -> None:
    migrate(file, CHAIN[:known])
    copy = file.with_name(f"bridge.sqlite3.before-upgrade-from-{known}")
    for left in (copy, copy.with_name(f"{copy.name}.partial")):
        left.write_text("half a copy, of an earlier attempt")

    assert migrate(file, CHAIN) == copy
    assert (S_IMODE(file.stat().st_mode), S_IMODE(copy.stat().st_mode)) == (0o600, 0o600)
    assert (version(copy), version(file)) == (known, 3)
    assert ask(copy, "SELECT name FROM notes") == [("kept",)]
    assert ask(file, "SELECT * FROM notes") == [("kept", "filled")]


def test_a_step_that_fails_leaves_nothing_of_a_new_file_and_an_older_one_as_it_was(file: Path) -> None:
    with pytest.raises(sqlite3.Error):
        migrate(file, [FIRST, Migration(2, "0002_bad.sql", "this is not SQL;")])
    assert list(file.parent.iterdir()) == []

    migrate(file, CHAIN[:1])
    before = schema(file)
    for sql in (
        "DELETE FROM notes; this is not SQL;",
        "CREATE TABLE more (name TEXT); INSERT INTO notes VALUES ('kept');",
        "DELETE FROM notes; CREATE TABLE unfinished (",
    ):
        with pytest.raises(sqlite3.Error):
            migrate(file, [FIRST, Migration(2, "0002_bad.sql", sql), THIRD])
        assert (version(file), schema(file)) == (1, before), sql
        assert ask(file, "SELECT * FROM notes") == [("kept",)]
    migrate(file, CHAIN)
    assert version(file) == 3


def test_the_log_of_a_database_that_was_deleted_is_not_applied_to_a_new_one(file: Path) -> None:
    migrate(file, CHAIN)
    log = file.with_name(f"{file.name}-wal")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DELETE FROM notes")
        content = log.read_bytes()
    file.unlink()
    log.write_bytes(content)

    migrate(file, CHAIN)
    assert ask(file, "SELECT * FROM notes") == [("kept", "filled")]


def test_an_empty_file_is_refused_and_its_log_stays(file: Path) -> None:
    file.touch()
    log = file.with_name(f"{file.name}-wal")
    log.write_bytes(b"what is left of the data")
    with pytest.raises(DataDirectoryError, match=r"is an empty file.*bridge-server restore FILE"):
        migrate(file, CHAIN)
    assert file.stat().st_size == 0
    assert log.read_bytes() == b"what is left of the data"


def test_a_file_of_a_newer_program_is_refused_and_not_touched(file: Path) -> None:
    migrate(file, CHAIN)
    before = file.read_bytes()
    with pytest.raises(NewerSchemaError) as caught:
        migrate(file, CHAIN[:2])
    assert all(text in str(caught.value) for text in (str(file), "version 3", "up to 2")), caught.value
    assert file.read_bytes() == before


@pytest.mark.parametrize("chain", [lambda: CHAIN, packaged_migrations], ids=["example", "packaged"])
def test_an_upgraded_schema_is_sound_and_a_new_one(file: Path, chain: Callable[[], list[Migration]]) -> None:
    migrations, fresh = chain(), file.with_name("fresh.sqlite3")
    migrate(fresh, migrations)
    for known in range(1, len(migrations) + 1):
        migrate(file, migrations[:known])

    assert [migration.version for migration in migrations] == list(range(1, len(migrations) + 1))
    assert version(file) == version(fresh) == len(migrations)
    assert schema(file) == schema(fresh)
    assert ask(file, "PRAGMA integrity_check") == [("ok",)]


NOTES = Migration(1, "0001_notes.sql", "-- oldest program: 1\nCREATE TABLE notes (name TEXT PRIMARY KEY);")
COLOURS = Migration(2, "0002_colours.sql", "ALTER TABLE notes ADD COLUMN colour TEXT;")
BROKEN = Migration(3, "0003_broken.sql", "CREATE TABLE colours (); INSERT INTO nowhere VALUES (1);")
RENAMED = Migration(3, "0003_renamed.sql", "-- oldest program: 3\nALTER TABLE notes RENAME TO papers;")


@pytest.fixture
async def bare(postgres: PostgresServer) -> AsyncIterator[Any]:
    """A connection to a database without tables."""
    async with connected(await postgres.bare_database()) as connection:
        yield connection


async def tables_in_postgres(connection: Any) -> set[str]:
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    return {row[0] for row in rows}


async def test_processes_that_start_together_make_it_once(postgres: PostgresServer) -> None:
    url = await postgres.bare_database()

    async def start() -> list[int]:
        async with connected(url) as connection:
            return list(await migrate_postgres(connection))

    applied = await asyncio.gather(*(start() for _ in range(6)))
    assert sorted(applied, key=len) == [[]] * 5 + [[each.version for each in packaged_for_postgres()]]


async def test_failing_migrations_change_nothing_and_older_programs_go_on_for_now(bare: Any) -> None:
    with pytest.raises(MigrationError, match=r"0003_broken.sql failed, .* at version 2: .*nowhere"):
        await migrate_postgres(bare, [NOTES, COLOURS, BROKEN])
    assert await tables_in_postgres(bare) == {"schema_versions", "notes"}
    assert (await schema_state(bare)).version == 2

    assert [await migrate_postgres(bare, known) for known in ([NOTES, COLOURS], [NOTES])] == [[], []]
    await require_known(bare, 1)
    await migrate_postgres(bare, [NOTES, COLOURS, RENAMED])
    with pytest.raises(
        NewerSchemaError, match="has schema version 3, and this program knows versions up to 2"
    ):
        await migrate_postgres(bare, [NOTES, COLOURS])
    with pytest.raises(NewerSchemaError, match="restore the pg_dump that was made before the upgrade"):
        await require_known(bare, 2)


async def test_a_database_with_tables_of_its_own_is_left_alone(bare: Any) -> None:
    await bare.execute("CREATE TABLE sessions (theirs TEXT)")
    with pytest.raises(MigrationError, match="must be the server's own"):
        await migrate_postgres(bare)
    assert await tables_in_postgres(bare) == {"sessions"}


_OF_SEVERAL_PROCESSES = {"outbox_lanes", "processes", "roles", "schema_versions"}

_TYPES = {"INTEGER": {"bigint", "integer"}, "TEXT": {"text"}, "BLOB": {"bytea"}}
_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, collation_name
FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position
"""
_INDEXES = """
SELECT indrelid::regclass::text, indisunique, indisprimary,
    ARRAY(SELECT coalesce(attname, '') FROM unnest(indkey) WITH ORDINALITY AS part (number, place)
          LEFT JOIN pg_attribute ON attrelid = indrelid AND attnum = part.number AND part.number > 0
          ORDER BY place),
    pg_get_expr(indpred, indrelid)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = current_schema()::regnamespace
"""


@pytest.fixture
async def postgres_schema(postgres: PostgresServer) -> AsyncIterator[Any]:
    async with connected(await postgres.database("bridge")) as connection:
        yield connection


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    migrate(tmp_path / "bridge.sqlite3", packaged_migrations())
    with closing(sqlite3.connect(tmp_path / "bridge.sqlite3")) as connection:
        yield connection


def tables(lite: sqlite3.Connection) -> list[str]:
    rows = lite.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in rows]


async def test_tables_and_columns_are_equal(postgres_schema: Any, lite: sqlite3.Connection) -> None:
    found: dict[str, list[Any]] = {}
    for table, *column in await postgres_schema.fetch(_COLUMNS):
        found.setdefault(table, []).append(column)
    assert found.keys() - _OF_SEVERAL_PROCESSES == set(tables(lite))
    for table in tables(lite):
        expected = lite.execute(f"PRAGMA table_info({table})").fetchall()
        assert [column[0] for column in found[table]] == [name for _, name, *_ in expected], table
        for (name, kind, is_nullable, collation), (_, _, declared, not_null, _, key) in zip(
            found[table], expected, strict=True
        ):
            assert kind in _TYPES[declared], (table, name)
            # The primary keys of SQLite's tables never hold NULL, whatever their declarations say.
            assert (is_nullable == "YES") == (not not_null and not key), (table, name)
            assert collation == ("C" if kind == "text" else None), (table, name)


async def test_keys_and_indexes_are_equal_but_for_few(postgres_schema: Any, lite: sqlite3.Connection) -> None:
    keys, indexes = Counter[Any](), Counter[Any]()
    for table, is_unique, is_primary, columns, condition in await postgres_schema.fetch(_INDEXES):
        if table not in _OF_SEVERAL_PROCESSES:
            (keys if is_unique or is_primary else indexes)[
                (table, tuple(columns)) + (() if is_unique else (condition is not None,))
            ] += 1
    expected_keys, expected_indexes = Counter[Any](), Counter[Any]()
    for table in tables(lite):
        primary = {key: name for _, name, *_, key in lite.execute(f"PRAGMA table_info({table})") if key}
        expected_keys[table, tuple(name for _, name in sorted(primary.items()))] += 1
        found = lite.execute(f"PRAGMA index_list({table})").fetchall()
        for _, index, is_unique, _, is_partial in [each for each in found if each[3] != "pk"]:
            columns = tuple(name for _, _, name in lite.execute(f"PRAGMA index_info({index})"))
            if is_unique:
                expected_keys[table, columns] += 1
            else:
                expected_indexes[table, columns, bool(is_partial)] += 1

    # An index entry has at most 2,704 bytes in PostgreSQL: addresses and choices of types can be longer.
    assert set(expected_keys - keys) == {("devices", ("account", "channel", "address"))}
    assert not keys - expected_keys
    assert {index[:2] for index in expected_indexes - indexes} == {("type_sets", ("project", "types"))}
    assert {index[:2] for index in indexes - expected_indexes} == {
        ("type_sets", ("project", "")),
        ("devices", ("account", "channel")),
        ("irn_calls", ("call",)),  # a process asks whether another one has answered a call
    }


async def test_foreign_keys_are_equal(postgres_schema: Any, lite: sqlite3.Connection) -> None:
    found = await postgres_schema.fetch(
        "SELECT conrelid::regclass::text, attname, confrelid::regclass::text, confdeltype::text"
        " FROM pg_constraint"
        " JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1] WHERE contype = 'f'"
    )
    assert {tuple(row) for row in found} == {
        (table, row[3], row[2], "c" if row[6] == "CASCADE" else "a")
        for table in tables(lite)
        for row in lite.execute(f"PRAGMA foreign_key_list({table})")
    }


def test_every_later_change_has_a_file_for_each_database() -> None:
    sqlite = {each.version for each in packaged_migrations()}
    postgres = {each.version for each in packaged_for_postgres()}
    assert postgres == {version for version in sqlite if version >= 12}
