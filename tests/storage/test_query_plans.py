"""No statement of a store walks through a table that grows: both databases tell their plans.

White-box: a walk through a table shows to clients only once it has grown.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from bridge_server.assembly.postgres_overrides import OVERRIDES
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.statements import translated
from tests.support.engines import STATEMENTS, parameter_count
from tests.support.postgres import PostgresServer, connected

# Owed messages are counted, in an index, when the server starts and once a minute.
# The oldest of them is looked for among a bounded number of its entries, when /metrics is asked for.
_WALKS = {"bridge_server.outbox.store._COUNT_PENDING", "bridge_server.outbox.message_store.OLDEST_DUE"}
# What `serve --test` counts and forgets is a test's own rows.
_TEST_MODE = "bridge_server.testmode."
# The list of projects is short, and an operator asks for it; that of hosts that answer is kept short.
_SHORT_TABLES = {"outbox_hosts", "projects"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """The schema. Without statistics, which nothing here gathers, plans do not depend on what it holds."""
    file = tmp_path_factory.mktemp("plans") / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    with closing(sqlite3.connect(file)) as connection:
        yield connection


def plan(file: sqlite3.Connection, sql: str) -> list[str]:
    return [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * parameter_count(sql))]


def tables(file: sqlite3.Connection) -> set[str]:
    return {row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_no_table_is_walked_through(file: sqlite3.Connection) -> None:
    long_tables = tables(file) - _SHORT_TABLES
    walks = {}
    for name, sql in STATEMENTS.items():
        stands_for = {alias: table for table, alias in re.findall(r"(\w+) AS (\w+)", sql)}
        walked = {step.split()[1] for step in plan(file, sql) if step.startswith("SCAN ")}
        if tables_walked := {stands_for.get(each, each) for each in walked} & long_tables:
            walks[name] = tables_walked

    assert walks.keys() - {f"{_TEST_MODE}service.COUNT"} == _WALKS, walks
    for name in _WALKS:
        scans = [step for step in plan(file, STATEMENTS[name]) if step.startswith("SCAN ")]
        assert scans == ["SCAN outbox USING COVERING INDEX outbox_due"]


def test_accounts_are_looked_up_and_not_looked_for_among_all_of_a_project(file: sqlite3.Connection) -> None:
    searches = ("SEARCH subscriptions ", "SEARCH account_buckets ")
    whole = {
        (name, step)
        for name, sql in STATEMENTS.items()
        for step in plan(file, sql)
        if step.startswith(searches) and "(project=?)" in step and "SWEEP_DELETED" not in name
    }
    assert whole == set()


def test_queues_and_their_messages_are_found_in_the_index_in_their_order(file: sqlite3.Connection) -> None:
    backlog = plan(file, STATEMENTS["bridge_server.outbox.store.PENDING_QUEUES"])
    following = plan(file, STATEMENTS["bridge_server.outbox.store._NEXT"])
    assert backlog[1].startswith("SEARCH outbox USING COVERING INDEX outbox_due")
    assert following == ["SEARCH outbox USING INDEX outbox_due (destination=? AND queue=?)"]


def test_to_delete_a_row_no_table_is_walked_through_for_what_refers_to_it(file: sqlite3.Connection) -> None:
    references = {
        (table, row[3]) for table in tables(file) for row in file.execute(f"PRAGMA foreign_key_list({table})")
    }
    assert {("call_statuses", "call"), ("sendings", "project"), ("type_set_members", "type")} <= references

    walked = [
        f"{table}.{column}"
        for table, column in references
        for step in plan(file, f"SELECT 1 FROM {table} WHERE {column} = ?")
        if step.startswith("SCAN ")
    ]
    assert walked == []


# Rows for every table of the server that grows, made by PostgreSQL: its planner has some to weigh.
_INSERTS = """
SELECT format('INSERT INTO %I (%s) SELECT %s FROM generate_series(1, 10000) AS n', table_name,
    string_agg(quote_ident(column_name), ', '),
    string_agg(CASE WHEN column_name = 'state' THEN $$(ARRAY['pending', 'sent', 'signed', '-'])[n % 4 + 1]$$
                    WHEN data_type = 'text' THEN $$'x' || n$$
                    WHEN data_type = 'bytea' THEN $$convert_to('x' || n, 'UTF8')$$
                    WHEN is_nullable = 'YES' THEN 'CASE WHEN n % 2 = 0 THEN n END'
                    ELSE 'n' END, ', '))
FROM information_schema.columns WHERE table_schema = current_schema()
    AND table_name NOT IN ('irn_id_blocks', 'schema_versions')
GROUP BY table_name
"""
# No statement makes PostgreSQL read a whole table that grows: it tells the plans for any parameters.
_SHORT_IN_POSTGRES = {
    *("console_links", "console_sessions", "irn_id_blocks", "notification_types", "outbox_hosts"),
    *("project_secrets", "projects"),
}
# Owed messages and dead letters are counted in their indexes, when the server starts and once a minute. The
# others walk through an index of the few rows that wait, or from the newest row on.
_WALKS_THROUGH_INDEXES = {
    "bridge_server.outbox.message_store.OLDEST_DUE": "outbox_due",
    "bridge_server.outbox.store._COUNT_PENDING": "outbox_due",
    "bridge_server.outbox.store._COUNT_DEAD": "outbox_dead",
    "bridge_server.wallet.approvals._PENDING": "wallet_approvals_pending",
    "bridge_server.wallet.approvals._WAITING_PAGE": "wallet_approvals_pending",
    "bridge_server.wallet.transactions.store.QUEUE": "wallet_transactions_owed",
    "bridge_server.wallet.transactions.store.NEWEST_OF_SENDER": "wallet_transactions_pkey",
    "bridge_server.wallet.transactions.store.WITH_PARAMS": "wallet_transactions_pkey",
}
_LOOKS = ("Index Scan", "Index Only Scan", "Bitmap Index Scan")
# Whole tables are only read where there is no other way, so that few rows show what many would.
_PLANNER_SETTINGS = """
SET plan_cache_mode = force_generic_plan; SET jit = off;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off
"""


async def postgres_plan(connection: Any, sql: str) -> list[Mapping[str, Any]]:
    """The steps of the plan for whatever the parameters are."""
    count = parameter_count(sql)
    nothing = f"({', '.join(['NULL'] * count)})" if count else ""
    await connection.execute(f"PREPARE asked AS {translated(OVERRIDES.get(sql, sql))}")
    try:
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{nothing}")
    finally:
        await connection.execute("DEALLOCATE asked")
    return list(steps(json.loads(text)[0]["Plan"]))


def steps(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The node and all below it."""
    yield node
    inner: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    for each in inner:
        yield from steps(each)


async def test_no_table_is_read_whole_and_a_sweep_reads_what_it_deletes(postgres: PostgresServer) -> None:
    read, walked = {}, {}
    async with connected(await postgres.database("bridge")) as connection:
        await connection.execute(_PLANNER_SETTINGS)
        await connection.execute("SET session_replication_role = replica")  # rows may refer to none
        for (insert,) in await connection.fetch(_INSERTS):
            await connection.execute(insert)
        await connection.execute("ANALYZE")
        for name, sql in STATEMENTS.items():
            found = [] if name.startswith(_TEST_MODE) else await postgres_plan(connection, sql)
            for step in [each for each in found if each.get("Relation Name") not in _SHORT_IN_POSTGRES]:
                if step["Node Type"] == "Seq Scan":
                    read[name] = step["Relation Name"]
                if step["Node Type"] in _LOOKS and "Index Cond" not in step:
                    walked[name] = step["Index Name"]
        sweep = await postgres_plan(connection, STATEMENTS["bridge_server.outbox.topics.SWEEP"])

    assert read == {}
    assert walked.items() <= _WALKS_THROUGH_INDEXES.items()
    assert "Tid Scan" in {step["Node Type"] for step in sweep}
