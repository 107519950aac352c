"""No statement of a store walks through a table that grows with what others do: SQLite tells its plans."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.support.rows import each_row
from tests.support.statements import STATEMENTS

# Owed messages are counted, in an index, when the server starts and once a minute.
# The oldest of them is looked for among a bounded number of its entries, when /metrics is asked for.
_WALKS = {"bridge_server.outbox.store._COUNT_PENDING", "bridge_server.outbox.message_store.OLDEST_DUE"}
# What `serve --test` counts is a test's own rows.
_OF_TEST_MODE = {"bridge_server.testmode.service.COUNT"}

# The list of projects is short, and an operator asks for it; that of hosts that answer is kept short.
_SHORT_TABLES = {"outbox_hosts", "projects"}
# Statements that mean all rows of one project, or as many as they say.
_ALL_OF_A_PROJECT = {
    "bridge_server.projects.store.SWEEP_DELETED[1]",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schema. Without statistics, which nothing here gathers, plans do not depend on what it holds."""
    file = tmp_path_factory.mktemp("plans") / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    return file


def plan(file: Path, sql: str) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        numbers = [int(number) for number in re.findall(r"\?(\d+)", sql)]
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * max(numbers, default=sql.count("?")))
        return [row[3] for row in rows]


def tables(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def references(file: Path) -> list[tuple[str, str]]:
    """Each table and its column that refers to rows of another."""
    with closing(sqlite3.connect(file)) as connection:
        return [
            (table, row[3])
            for table in tables(file)
            for row in connection.execute(f"PRAGMA foreign_key_list({table})")
        ]


def test_no_table_is_walked_through(file: Path) -> None:
    long_tables = tables(file) - _SHORT_TABLES
    walks = {}
    for name in STATEMENTS.keys() - _WALKS - _OF_TEST_MODE:
        sql = STATEMENTS[name]
        stands_for = {alias: table for table, alias in re.findall(r"(\w+) AS (\w+)", sql)}
        walked = {step.split()[1] for step in plan(file, sql) if step.startswith("SCAN ")}
        walks[name] = {stands_for.get(each, each) for each in walked} & long_tables

    assert {name: walked for name, walked in walks.items() if walked} == {}


def test_accounts_are_looked_up_and_not_looked_for_among_all_of_a_project(file: Path) -> None:
    searches = ("SEARCH subscriptions ", "SEARCH account_buckets ")
    whole = {
        (name, step)
        for name in STATEMENTS.keys() - _ALL_OF_A_PROJECT
        for step in plan(file, STATEMENTS[name])
        if step.startswith(searches) and "(project=?)" in step and "SWEEP_DELETED" not in name
    }

    assert whole == set()


def test_statements_listed_as_scanning_a_project_do(file: Path) -> None:
    assert STATEMENTS.keys() >= _ALL_OF_A_PROJECT
    for name in _ALL_OF_A_PROJECT:
        assert any("subscriptions" in step and "(project=?)" in step for step in plan(file, STATEMENTS[name]))


@each_row("name", sorted(_WALKS))
def test_statements_that_scan_a_table_scan_its_index_of_owed_messages(file: Path, name: str) -> None:
    steps = plan(file, STATEMENTS[name])

    assert [step for step in steps if step.startswith("SCAN ")] == [
        "SCAN outbox USING COVERING INDEX outbox_due"
    ]


def test_queues_and_their_messages_are_found_in_the_index_in_their_order(file: Path) -> None:
    backlog = plan(file, STATEMENTS["bridge_server.outbox.store.PENDING_QUEUES"])
    following = plan(file, STATEMENTS["bridge_server.outbox.store._NEXT"])

    assert backlog[1].startswith("SEARCH outbox USING COVERING INDEX outbox_due")
    assert following == ["SEARCH outbox USING INDEX outbox_due (destination=? AND queue=?)"]


def test_messages_queued_for_a_device_are_counted_in_an_index(file: Path) -> None:
    steps = plan(file, STATEMENTS["bridge_server.projects.devices._STATES"])

    assert any(step.startswith("SEARCH outbox USING") and "outbox_by_device" in step for step in steps)


def test_to_delete_a_row_no_table_is_walked_through_for_what_refers_to_it(file: Path) -> None:
    known = references(file)
    assert {("call_statuses", "call"), ("sendings", "project"), ("type_set_members", "type")} <= set(known)

    walked = [
        f"{table}.{column}"
        for table, column in known
        for step in plan(file, f"SELECT 1 FROM {table} WHERE {column} = ?")
        if step.startswith("SCAN ")
    ]

    assert walked == []


def test_the_planner_is_asked_about_every_room() -> None:
    modules = {name.rsplit(".", 1)[0].removeprefix("bridge_server.") for name in STATEMENTS}

    assert modules >= {
        "inbox.devices",
        "inbox.sign_in",
        "inbox.store",
        "notify.store",
        "outbox.store",
        "projects.store",
        "projects.devices",
        "projects.subscriptions",
        "pubsub.v1_store",
        "push.store",
        "relay.store",
        "wallet.approvals",
        "wallet.transactions.store",
    }
