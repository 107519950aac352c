"""No statement makes PostgreSQL read a whole table that grows: it tells the plans for any parameters."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import pytest

from bridge_server.assembly.postgres_overrides import OVERRIDES
from bridge_server.storage.postgres.migrate import migrate
from bridge_server.storage.postgres.statements import translated
from tests.storage.filled_tables import filling
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.slow import SLOW
from tests.support.statements import STATEMENTS, parameter_count

pytestmark = needs_postgres

_SHORT_TABLES = {
    "console_links",
    "console_sessions",
    "irn_id_blocks",
    "notification_types",
    "outbox_hosts",
    "project_secrets",
    "projects",
}
# What `serve --test` forgets and counts is a test's own rows.
_OF_TEST_MODE = "bridge_server.testmode."

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


_SETTINGS = """
SET plan_cache_mode = force_generic_plan; SET jit = off;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off
"""
_ROWS = 100_000 if SLOW else 5_000


@pytest.fixture
async def connection(postgres: PostgresServer) -> AsyncIterator[Any]:
    """Whole tables are only read where there is no other way, so that few rows show what many would."""
    async with connected(await postgres.database("bridge", migrate)) as connection:
        await connection.execute(_SETTINGS)
        yield connection


async def plan(connection: Any, sql: str) -> Mapping[str, Any]:
    """The plan for whatever the parameters are."""
    count = parameter_count(sql)
    nothing = f"({', '.join(['NULL'] * count)})" if count else ""
    await connection.execute(f"PREPARE asked AS {translated(OVERRIDES.get(sql, sql))}")
    try:
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{nothing}")
    finally:
        await connection.execute("DEALLOCATE asked")
    found: Mapping[str, Any] = json.loads(text)[0]["Plan"]
    return found


def steps(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The node and all below it."""
    yield node
    inner: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    for each in inner:
        yield from steps(each)


async def test_no_table_is_read_as_a_whole(connection: Any) -> None:
    await connection.execute(filling(_ROWS))
    read, walked = {}, {}
    for name, sql in STATEMENTS.items():
        if name.startswith(_OF_TEST_MODE):
            continue
        for step in steps(await plan(connection, sql)):
            if step["Node Type"] == "Seq Scan" and step["Relation Name"] not in _SHORT_TABLES:
                read[name] = step["Relation Name"]
            if step["Node Type"] in _LOOKS and _is_walk(step):
                walked[name] = step["Index Name"]

    assert read == {}
    assert walked.items() <= _WALKS_THROUGH_INDEXES.items()


def _is_walk(step: Mapping[str, Any]) -> bool:
    return "Index Cond" not in step and step.get("Relation Name") not in _SHORT_TABLES


async def test_a_sweep_reads_as_many_rows_as_it_may_delete(connection: Any) -> None:
    await connection.execute(filling(_ROWS))
    sweep = STATEMENTS["bridge_server.outbox.topics.SWEEP"]

    kinds = {step["Node Type"] for step in steps(await plan(connection, sweep))}

    assert "Tid Scan" in kinds
