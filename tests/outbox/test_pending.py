"""The oldest message that is pending: looked for among so many entries of the index, whatever is queued."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.outbox.message_store import oldest_due_ms
from bridge_server.storage.database import Database, Statement, Transaction
from tests.support.schema_databases import ENGINES, schema_database

_SEARCHED = 100_000
_OWE = """
WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?)
INSERT INTO outbox (message_id, destination, url, body, created_at_ms, next_attempt_at_ms)
SELECT 'm', ?, 'u', 'b', 0, ? FROM numbers
"""


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with schema_database(request, tmp_path, Events()) as database:
        yield database


async def owe(database: Database, messages: int, destination: str, due_at_ms: int) -> None:
    def work() -> Transaction[None]:
        yield Statement(_OWE, (messages, destination, due_at_ms))

    await database.transaction(work)


async def test_without_an_owed_message_there_is_no_oldest(database: Database) -> None:
    assert await oldest_due_ms(database) is None


async def test_the_oldest_of_all_queues_counts(database: Database) -> None:
    await owe(database, 3, "https://b.test:443", 9_000)
    await owe(database, 1, "https://c.test:443", 4_000)
    await owe(database, 1, "https://a.test:443", 6_000)

    assert await oldest_due_ms(database) == 4_000


async def test_the_search_ends_after_100_000_messages(database: Database) -> None:
    await owe(database, _SEARCHED - 1, "https://a.test:443", 9_000)
    await owe(database, 1, "https://b.test:443", 8_000)
    await owe(database, 1, "https://c.test:443", 4_000)

    assert await oldest_due_ms(database) == 8_000
