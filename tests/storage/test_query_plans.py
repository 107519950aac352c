"""No statement of a store walks through a table that grows: both databases tell their plans.

The planners are asked: a walk through a table shows to clients only once it has grown.
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
from tests.support.postgres import PostgresServer, connected, needs_postgres

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
_FILLING = """
CREATE TEMPORARY TABLE many AS SELECT n FROM generate_series(1, 10000) AS n;
INSERT INTO sessions (session_id, expires_at_ms, payload)
    SELECT 's' || n, CASE WHEN n % 10 = 0 THEN 0 ELSE 2000000 + n END, 'x' FROM many;
INSERT INTO calls (call_id, session, expires_at_ms, listed, payload)
    SELECT 'c' || n, n / 2 + 1, 2000000 + n, n % 2, 'x' FROM many;
INSERT INTO call_statuses (call, expires_at_ms, payload) SELECT n, 2000000, 'x' FROM many WHERE n % 2 = 1;
INSERT INTO topic_webhooks SELECT 's' || n, 'https://example.org/', 2000000 + n FROM many;
INSERT INTO push_registrations (topic, bridge, channel, url, peer_name, language, expires_at_ms)
    SELECT 's' || n, '', 'fcm', 'fcm:' || n, '', '', n FROM many;
INSERT INTO topic_messages SELECT n, 't' || n / 4, 'x', 1, n, 'a' || n % 1000, n FROM many;
INSERT INTO irn_messages SELECT n, 't' || n / 4, 'x', 1, 'k' || n / 10, 'a' || n % 1000, n % 2, n FROM many;
INSERT INTO irn_subscriptions SELECT 'k' || n / 10, 't' || n, n, n, n FROM many;
INSERT INTO irn_calls SELECT n, 'd' || n FROM many;
INSERT INTO outbox
    (message_id, destination, url, body, created_at_ms, next_attempt_at_ms, died_at_ms, device_id, queue)
    SELECT 'm' || n, 'https://h' || n % 500, '', '', n, CASE WHEN n % 5 > 0 THEN n END,
        CASE WHEN n % 5 = 0 THEN n END, CASE WHEN n % 3 = 0 THEN 'd' || n END, 'q' || n % 700 FROM many;
INSERT INTO buckets SELECT 'requests', 'a' || n, n, 1 FROM many;
INSERT INTO projects (project_id, name, created_at_ms) SELECT 'p' || n, '', 0 FROM many WHERE n <= 100;
INSERT INTO project_secrets (project, digest, created_at_ms)
    SELECT n % 100 + 1, 'x', 0 FROM many WHERE n <= 200;
INSERT INTO notification_types (project, type_id, name, created_at_ms)
    SELECT n % 100 + 1, 't' || n, '', 0 FROM many WHERE n <= 1000;
INSERT INTO type_sets (project, types) SELECT n % 100 + 1, '["t' || n || '"]' FROM many;
INSERT INTO type_set_members SELECT n % 1000 + 1, n FROM many;
INSERT INTO accounts (account_key) SELECT 'k' || n FROM many;
INSERT INTO subscriptions SELECT n % 100 + 1, 'k' || n, n, 'k' || n, n % 10000 + 1, 0 FROM many;
INSERT INTO notifications (project, type, idempotency_key, title, body)
    SELECT n % 100 + 1, n % 1000 + 1, 'n' || n, '', '' FROM many;
INSERT INTO covered_accounts SELECT n, n FROM many;
INSERT INTO missed_accounts SELECT n % 100 + 1, n, n, 'rate_limited', NULL, n FROM many;
INSERT INTO sendings (project, type, notification, sent_at_ms)
    SELECT n % 100 + 1, n % 1000 + 1, n, n FROM many;
INSERT INTO deliveries SELECT n % 5000 + 1, n, CASE WHEN n % 2 = 0 THEN n END FROM many;
INSERT INTO account_buckets SELECT n % 100 + 1, n, n, 1, n FROM many;
INSERT INTO daily_figures SELECT n % 100 + 1, n % 1000 + 1, n / 1000 FROM many ON CONFLICT DO NOTHING;
INSERT INTO sign_in_nonces SELECT 'n' || n, n FROM many;
INSERT INTO inbox_tokens SELECT convert_to('t' || n, 'UTF8'), n, '', n FROM many;
INSERT INTO devices (device_id, account, channel, address, created_at_ms)
    SELECT 'd' || n, n, 'webhook', 'a' || n, 0 FROM many;
INSERT INTO wallet_approvals
    (approval_id, method, address, subject, caller, request_id, asked_at_ms, expires_at_ms, state)
    SELECT 'a' || n, '', '', '', '', '', n, n,
        CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'approved' END FROM many;
INSERT INTO wallet_transactions (transaction_id, sender, params, caller, request_id, asked_at_ms, state,
    chain_id, nonce, transaction_hash, next_attempt_at_ms, settled_at_ms)
    SELECT 't' || n, '0x' || n % 50, '{}', '', '', n,
        CASE WHEN n % 100 = 0 THEN 'signed' WHEN n % 100 = 1 THEN 'sent' ELSE 'mined' END, 1,
        n, '0x' || n, n, CASE WHEN n % 100 > 1 THEN n END FROM many;
ANALYZE;
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


@needs_postgres
async def test_no_table_is_read_as_a_whole_and_a_sweep_reads_only_what_it_may_delete(
    postgres: PostgresServer,
) -> None:
    read, walked = {}, {}
    async with connected(await postgres.database("bridge")) as connection:
        await connection.execute(_PLANNER_SETTINGS)
        await connection.execute(_FILLING)
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
