"""The schemas of both databases are one schema but for what is listed here."""

import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.migrate import migrate as migrate_postgres
from bridge_server.storage.postgres.migrate import packaged_migrations as packaged_for_postgres
from tests.support.postgres import PostgresServer, connected, needs_postgres

_OF_SEVERAL_PROCESSES = {"outbox_lanes", "processes", "roles", "schema_versions"}

# An index entry has at most 2,704 bytes in PostgreSQL: addresses and choices of types can be longer.
_KEYS_OF_SQLITE = {("devices", ("account", "channel", "address"))}
_INDEXES_OF_SQLITE = {("type_sets", ("project", "types"))}
_INDEXES_OF_POSTGRES = {
    ("type_sets", ("project", "")),
    ("devices", ("account", "channel")),
    # A process asks whether another one has answered a call.
    ("irn_calls", ("call",)),
}

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
_REFERENCES = """
SELECT conrelid::regclass::text, attname, confrelid::regclass::text, confdeltype::text FROM pg_constraint
JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1] WHERE contype = 'f'
"""


@pytest.fixture
async def postgres_schema(postgres: PostgresServer) -> AsyncIterator[Any]:
    async with connected(await postgres.database("bridge", migrate_postgres)) as connection:
        yield connection


@pytest.fixture
def lite(tmp_path: Path) -> sqlite3.Connection:
    migrate(tmp_path / "bridge.sqlite3", packaged_migrations())
    return sqlite3.connect(tmp_path / "bridge.sqlite3")


def tables(lite: sqlite3.Connection) -> list[str]:
    rows = lite.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in rows]


@needs_postgres
async def test_tables_and_columns_are_the_same(postgres_schema: Any, lite: sqlite3.Connection) -> None:
    found: dict[str, list[Any]] = {}
    for table, *column in await postgres_schema.fetch(_COLUMNS):
        found.setdefault(table, []).append(column)
    with closing(lite):
        assert found.keys() - _OF_SEVERAL_PROCESSES == set(tables(lite))
        for table in tables(lite):
            expected = lite.execute(f"PRAGMA table_info({table})").fetchall()
            assert [column[0] for column in found[table]] == [name for _, name, *_ in expected], table
            for (name, kind, is_nullable, _), (_, _, declared, not_null, _, key) in zip(
                found[table], expected, strict=True
            ):
                assert kind in _TYPES[declared], (table, name)
                # The primary keys of SQLite's tables never hold NULL, whatever their declarations say.
                assert (is_nullable == "YES") == (not not_null and not key), (table, name)


@needs_postgres
async def test_texts_are_compared_by_their_bytes(postgres_schema: Any) -> None:
    collations = {
        collation for _, _, kind, _, collation in await postgres_schema.fetch(_COLUMNS) if kind == "text"
    }

    assert collations == {"C"}


@needs_postgres
async def test_keys_and_indexes_are_the_same(postgres_schema: Any, lite: sqlite3.Connection) -> None:
    keys, indexes = Counter[Any](), Counter[Any]()
    for table, is_unique, is_primary, columns, condition in await postgres_schema.fetch(_INDEXES):
        if table not in _OF_SEVERAL_PROCESSES:
            (keys if is_unique or is_primary else indexes)[
                (table, tuple(columns)) + (() if is_unique else (condition is not None,))
            ] += 1
    expected_keys, expected_indexes = Counter[Any](), Counter[Any]()
    with closing(lite):
        for table in tables(lite):
            primary = {key: name for _, name, *_, key in lite.execute(f"PRAGMA table_info({table})") if key}
            expected_keys[table, tuple(name for _, name in sorted(primary.items()))] += 1
            for _, index, is_unique, origin, is_partial in lite.execute(
                f"PRAGMA index_list({table})"
            ).fetchall():
                columns = tuple(name for _, _, name in lite.execute(f"PRAGMA index_info({index})"))
                if origin == "pk":
                    continue
                if is_unique:
                    expected_keys[table, columns] += 1
                else:
                    expected_indexes[table, columns, bool(is_partial)] += 1

    assert set(expected_keys - keys) == _KEYS_OF_SQLITE
    assert not keys - expected_keys
    assert {index[:2] for index in expected_indexes - indexes} == _INDEXES_OF_SQLITE
    assert {index[:2] for index in indexes - expected_indexes} == _INDEXES_OF_POSTGRES


@needs_postgres
async def test_foreign_keys_are_equal(postgres_schema: Any, lite: sqlite3.Connection) -> None:
    found = {tuple(row) for row in await postgres_schema.fetch(_REFERENCES)}
    with closing(lite):
        expected = {
            (table, row[3], row[2], "c" if row[6] == "CASCADE" else "a")
            for table in tables(lite)
            for row in lite.execute(f"PRAGMA foreign_key_list({table})")
        }

    assert found == expected


def test_every_later_change_has_a_file_for_each_database() -> None:
    sqlite = {each.version for each in packaged_migrations()}
    postgres = {each.version for each in packaged_for_postgres()}

    assert postgres == {version for version in sqlite if version >= min(postgres)}
    assert min(postgres) == 12


def test_migrations_say_when_they_end_an_older_program() -> None:
    assert re.match(r"-- oldest program: 12\n", packaged_for_postgres()[0].sql)
