"""A sweep of PostgreSQL spares a row that another process prolongs or answers at that moment."""

import asyncio
from typing import Any

import pytest

from bridge_server.assembly.postgres_overrides import OVERRIDES
from bridge_server.outbox import topics
from bridge_server.relay import store as relay_sql
from bridge_server.storage.postgres.migrate import migrate
from bridge_server.storage.postgres.statements import swept, translated
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.rows import each_row

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@needs_postgres
async def test_a_row_that_is_prolonged_while_it_is_swept_stays(postgres: PostgresServer) -> None:
    url = await postgres.database("bridge", migrate)
    async with connected(url) as prolonging, connected(url) as sweeping, connected(url) as watching:
        for webhook in ("https://a.example", "https://b.example"):
            await prolonging.execute(translated(topics.UPSERT), "topic", webhook, 1_000)
        async with prolonging.transaction():
            await prolonging.execute(translated(topics.UPSERT), "topic", "https://a.example", 9_000)
            deleting = asyncio.create_task(sweeping.execute(translated(OVERRIDES[topics.SWEEP]), 2_000, 500))

            async def waits() -> Any:
                return await watching.fetchval(_WAITING)

            await eventually(waits)

        assert await deleting == "DELETE 1"
        assert [row[0] for row in await watching.fetch("SELECT webhook FROM topic_webhooks")] == [
            "https://a.example"
        ]


_SESSION = "INSERT INTO sessions (session_id, expires_at_ms) VALUES ('s', 9000) RETURNING id"
_CALL = """
INSERT INTO calls (call_id, session, expires_at_ms, listed, payload) VALUES ('c', $1, 1000, 1, '')
RETURNING id
"""


@needs_postgres
@each_row("has_one_before", [False, True])
async def test_a_call_whose_status_is_stored_while_it_is_swept_stays(
    postgres: PostgresServer, has_one_before: bool
) -> None:
    url = await postgres.database("bridge", migrate)
    async with connected(url) as answering, connected(url) as sweeping, connected(url) as watching:
        call = await answering.fetchval(_CALL, await answering.fetchval(_SESSION))
        if has_one_before:
            await answering.execute(translated(relay_sql.UPSERT_STATUS), call, 2_000, b"first")
        async with answering.transaction():
            await answering.execute(translated(relay_sql.UPSERT_STATUS), call, 9_000, b"last")
            sweep = translated(OVERRIDES[relay_sql.SWEEP_CALL])
            deleting = asyncio.create_task(sweeping.execute(sweep, call, 3_000, 3_000))

            async def waits() -> Any:
                return await watching.fetchval(_WAITING)

            await eventually(waits)

        assert await deleting == "DELETE 0"
        assert await watching.fetchval("SELECT payload FROM call_statuses") == b"last"

        assert await sweeping.execute(sweep, call, 9_000, 9_000) == "DELETE 1"
        assert await watching.fetchval("SELECT count(*) FROM call_statuses") == 0


def test_a_sweep_names_rows_by_their_places() -> None:
    rows = "(SELECT c, d FROM a WHERE e <= ? ORDER BY e LIMIT ?)"
    statement = f"DELETE FROM a WHERE b <= ? AND (c, d) IN\n {rows}\nRETURNING c"

    assert swept(statement) == (
        "DELETE FROM a WHERE b <= ?1 AND e <= ?2 AND ctid = ANY (ARRAY("
        "SELECT ctid FROM a WHERE e <= ?2 ORDER BY e LIMIT ?3))\nRETURNING c"
    )


def test_another_statement_is_no_sweep() -> None:
    with pytest.raises(ValueError, match="is no sweep"):
        swept("DELETE FROM a WHERE b = ?")
