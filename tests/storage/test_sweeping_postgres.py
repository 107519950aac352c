"""A sweep of PostgreSQL spares a row that another process prolongs at that moment."""

import asyncio
from typing import Any

import pytest

from bridge_server.assembly.postgres_overrides import OVERRIDES
from bridge_server.storage.postgres.migrate import migrate
from bridge_server.storage.postgres.sweeps import swept
from bridge_server.storage.postgres.translation import translated
from bridge_server.topics import sql
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@needs_postgres
async def test_a_row_that_is_prolonged_while_it_is_swept_stays(postgres: PostgresServer) -> None:
    url = await postgres.database("bridge", migrate)
    async with connected(url) as prolonging, connected(url) as sweeping, connected(url) as watching:
        for webhook in ("https://a.example", "https://b.example"):
            await prolonging.execute(translated(sql.UPSERT), "topic", webhook, 1_000)
        async with prolonging.transaction():
            await prolonging.execute(translated(sql.UPSERT), "topic", "https://a.example", 9_000)
            deleting = asyncio.create_task(sweeping.execute(translated(OVERRIDES[sql.SWEEP]), 2_000, 500))

            async def waits() -> Any:
                return await watching.fetchval(_WAITING)

            await eventually(waits)

        assert await deleting == "DELETE 1"
        assert [row[0] for row in await watching.fetch("SELECT webhook FROM topic_webhooks")] == [
            "https://a.example"
        ]


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
