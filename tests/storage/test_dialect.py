"""Every statement is one that PostgreSQL takes too, as it is written or by its override.

White-box: the statements are read from the code: a request reaches few of them on both engines.
"""

import ast
import importlib
import inspect
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.assembly.postgres_overrides import OF_ROOMS, OVERRIDES
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.statements import (
    MARK,
    decoded,
    encoded,
    escaped,
    translated,
    unescaped,
    with_parts,
)
from tests.support.engines import STATEMENT, STATEMENTS, modules, parameter_count
from tests.support.postgres import PostgresServer, connected
from tests.support.rows import each_row

_OF_SQLITE_ALONE = {
    "bridge_server.storage.backup",  # VACUUM INTO makes a copy of the file
    "bridge_server.storage.connection",  # sets a connection to the file up
    "bridge_server.storage.migrate",  # the schema's version stands in the file's header
    "bridge_server.storage.restore",  # examines a copy of the file
    "bridge_server.storage.group_commit",  # begins and ends transactions, and counts the pages of the file
    "bridge_server.storage.sqlite",  # checkpoints the write-ahead log, and sees other processes' writes
}
"""Modules that ask SQLite about its file, and what for."""
_OTHER_WORDS = "PRAGMA|VACUUM|ATTACH|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|CREATE"
_BEGINNING = re.compile(rf"{STATEMENT.pattern}|\s*(?:{_OTHER_WORDS})\b")
_A_WORD = re.compile(rf"SELECT|INSERT|UPDATE|DELETE|WITH|{_OTHER_WORDS}")
_PARAMETER_TYPES = {"int4", "int8", "text", "bytea"}


@pytest.fixture
async def prepared(postgres: PostgresServer) -> AsyncIterator[dict[str, Any]]:
    """Every statement as PostgreSQL has taken it."""
    found = {}
    async with connected(await postgres.database("bridge")) as connection:
        for name, sql in STATEMENTS.items():
            try:
                found[name] = await connection.prepare(translated(OVERRIDES.get(sql, sql)))
            except Exception as error:  # whatever is wrong with it
                error.add_note(name)
                raise
        yield found


async def test_results_are_those_of_sqlite(prepared: dict[str, Any], tmp_path: Path) -> None:
    assert len(prepared) > 250
    different, foreign = {}, {}
    migrate(tmp_path / "bridge.sqlite3", packaged_migrations())
    with closing(sqlite3.connect(tmp_path / "bridge.sqlite3")) as lite:
        for name, sql in STATEMENTS.items():
            columns = prepared[name].get_attributes()
            if sql.lstrip().startswith("SELECT"):
                expected = len(lite.execute(sql, (0,) * parameter_count(sql)).description)
            else:
                _, _, returned = sql.partition("RETURNING")
                expected = len(returned.split(",")) if returned else 0
            if len(columns) != expected:
                different[name] = (expected, len(columns))
            if types := {column.type.name for column in columns} - _PARAMETER_TYPES - {"bool"}:
                foreign[name] = types
    assert (different, foreign) == ({}, {})


async def test_parameters_are_those_of_the_rooms(prepared: dict[str, Any]) -> None:
    """A number beyond 2^31, which a client chooses, would be refused where SQLite only finds nothing."""
    different, foreign = {}, {}
    short: dict[str, list[int]] = {}
    for name, sql in STATEMENTS.items():
        parameters = prepared[name].get_parameters()
        if len(parameters) != parameter_count(sql):
            different[name] = (parameter_count(sql), len(parameters))
        if types := {kind.name for kind in parameters} - _PARAMETER_TYPES:
            foreign[name] = types
        if numbers := [number for number, kind in enumerate(parameters, 1) if kind.name == "int4"]:
            short[name] = numbers

    assert (different, foreign) == ({}, {})
    assert short == _SHORT_NUMBERS


# Counts of accounts and of bytes, flags, attempts and days: the server has reckoned or bounded each of them.
_SHORT_NUMBERS = {
    "bridge_server.inbox.store.PAGE": [6, 7],
    "bridge_server.notify.store.COUNT_MISSED": [1],
    "bridge_server.notify.store.INSERT_NOTIFICATION": [8, 9, 10],
    "bridge_server.notify.store.COUNT_CALL": [1, 2, 3],
    "bridge_server.notify.store.COUNT_SENT": [3, 4],
    "bridge_server.outbox.store._POSTPONE": [1],
    "bridge_server.outbox.store._BURY": [1],
    "bridge_server.projects.store.OVERVIEW": [1, 2],
    "bridge_server.projects.store.FIGURES": [1, 2],
    "bridge_server.projects.subscriptions.TYPE_SET": [3],
    "bridge_server.projects.subscriptions.INSERT_TYPE_SET": [3],
    "bridge_server.projects.subscriptions.ADD_SUBSCRIBERS": [1],
    "bridge_server.pubsub.v2_store.INSERT_MESSAGE": [4, 7],
    "bridge_server.pubsub.v1_store.INSERT": [4],
    "bridge_server.wallet.transactions.store.PAGE": [5],
    "bridge_server.wallet.transactions.store.POSTPONE": [1],
}


def test_each_override_belongs_to_one_statement_and_each_part_to_it() -> None:
    assert OVERRIDES.keys() <= set(STATEMENTS.values())
    assert len(OVERRIDES) == sum(map(len, OF_ROOMS))
    with pytest.raises(ValueError, match="has no 'max'"):
        with_parts("SELECT min(id) FROM calls", {"max": "min"})


_OF_SQLITE = (
    r"\b(LIKE|GLOB|random\(|changes\(|last_insert_rowid|rowid|OR IGNORE|OR REPLACE|LIMIT -1|IS \?|IS NOT \?"
    r"|(json_each|json_group_array|json_extract|json_array|json_type|group_concat)\()"
)


def test_no_statement_means_something_else_in_postgres() -> None:
    """PREPARE would take some of these: a json_each of PostgreSQL gives texts in their quotation marks."""
    found = [name for name, sql in STATEMENTS.items() if re.search(_OF_SQLITE, OVERRIDES.get(sql, sql))]
    assert found == []


def test_rows_of_an_upsert_are_taken_in_the_order_of_their_keys() -> None:
    """Two transactions that write several rows each would otherwise wait for each other."""
    unordered = [
        name
        for name, sql in STATEMENTS.items()
        if "ON CONFLICT" in sql and re.search(r"\bSELECT\b", sql.partition("ON CONFLICT")[0])
        if not re.search(r"ORDER BY [^()]*ON CONFLICT", OVERRIDES.get(sql, sql))
    ]

    assert unordered == []


def test_statements_are_written_as_constants() -> None:
    """A statement within a function would not be prepared here, and its plan would not be looked at."""
    of_one_text = {"bridge_server.projects.store"}  # a function makes several constants of it
    assert {name for name in modules() if _has_statement_in_function(name)} == _OF_SQLITE_ALONE | of_one_text


def _has_statement_in_function(module: str) -> bool:
    source = inspect.getsource(importlib.import_module(module))
    if not _A_WORD.search(source):
        return False
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and _BEGINNING.match(node.value)
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    )


# The shared statements as PostgreSQL takes them, and texts with U+0000.

TEXTS = st.text(st.sampled_from(["\0", MARK, "0", "1", "a", "é", "🎉"]) | st.characters(codec="utf-8"))
_CROSS_JOINS = [
    "FROM a CROSS JOIN b JOIN c ON 1",
    "(SELECT 1 FROM a CROSS JOIN b) AS x JOIN c ON 1",
    "SELECT 'CROSS JOIN b ON'",
]


@each_row(
    ("sql", "expected"),
    [
        ("SELECT ? + ?", "SELECT $1 + $2"),
        ("SELECT ?2, ?1, ?2", "SELECT $2, $1, $2"),
        ("SELECT '?', \"?\", ? -- ?\n, ? /* ? */", "SELECT '?', \"?\", $1 -- ?\n, $2 /* ? */"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', $1"),
        ("FROM a CROSS JOIN b ON b.x = a.x", "FROM a JOIN b ON b.x = a.x"),
        ("FROM a cross  join b ON 1 CROSS JOIN c ON 2", "FROM a JOIN b ON 1 JOIN c ON 2"),
        *((sql, sql) for sql in _CROSS_JOINS),
    ],
)
def test_a_statement_is_translated(sql: str, expected: str) -> None:
    assert translated(sql) == expected


@given(TEXTS)
def test_every_text_comes_back(text: str) -> None:
    assert "\0" not in escaped(text)
    assert unescaped(escaped(text)) == text
    assert decoded(tuple(encoded((text, 1, None, b"\0")))) == (text, 1, None, b"\0")
