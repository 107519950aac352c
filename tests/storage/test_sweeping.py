"""Sweeping deletes what has expired, a slice at a time, and leaves nothing without its owner."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.signals import Signals
from bridge_server.relay.models import CallId, Payload, SessionId, StoredCall, Topic
from bridge_server.storage.database import Value
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.relay_store import SqlRelayStore
from bridge_server.storage.sqlite import SqliteDatabase

TABLES = ("sessions", "calls", "pending_calls", "call_statuses", "topic_webhooks")
ORPHANS = "SELECT call FROM pending_calls WHERE call NOT IN (SELECT id FROM calls)"
STATUS_LIFETIME_MS = 500
PAYLOAD = Payload(b'"sealed"')


@pytest.fixture
async def database(tmp_path: Path, signals: Signals) -> AsyncIterator[SqliteDatabase]:
    file = tmp_path / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, signals)
    async with database.opened():
        yield database


@pytest.fixture
def store(database: SqliteDatabase) -> SqlRelayStore:
    return SqlRelayStore(database)


async def fill(store: SqlRelayStore, sessions: int, calls_each: int) -> None:
    """Sessions that expire at 2,000 with calls that expire at 1,000, every second one answered."""
    for number in range(sessions):
        session_id = SessionId(f"session-{number}")
        await store.create_session(session_id, expires_at_ms=2_000)
        for call_number in range(calls_each):
            call = StoredCall(CallId(f"{session_id}-{call_number}"), session_id, PAYLOAD, 1_000, 2_000)
            await store.add_call(call, 0, pending_limit=100, messages_to=lambda _: [])
            if call_number % 2:
                await store.set_status(call.call_id, PAYLOAD, now_ms=0, expires_at_ms=1_000)
        await store.subscribe(Topic(session_id), "https://example.org", 0, 1_500, webhook_limit=16)


async def counts(database: SqliteDatabase) -> dict[str, Value]:
    return {table: (await database.read(f"SELECT count(*) FROM {table}"))[0][0] for table in TABLES}


async def test_nothing_is_swept_before_its_time(database: SqliteDatabase, store: SqlRelayStore) -> None:
    await fill(store, sessions=2, calls_each=4)
    before = await counts(database)

    swept = await store.sweep(1_499, limit=100, status_lifetime_ms=STATUS_LIFETIME_MS)

    assert swept == 0
    assert await counts(database) == before


async def test_calls_go_once_no_status_of_theirs_can_live(
    database: SqliteDatabase, store: SqlRelayStore
) -> None:
    await fill(store, sessions=2, calls_each=4)

    swept = await store.sweep(1_500, limit=100, status_lifetime_ms=STATUS_LIFETIME_MS)

    assert swept == 8 + 2
    assert await counts(database) == {
        "sessions": 2,
        "calls": 0,
        "pending_calls": 0,
        "call_statuses": 0,
        "topic_webhooks": 0,
    }


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_slice_after_slice_everything_goes_and_nothing_is_left_without_its_owner(
    database: SqliteDatabase, store: SqlRelayStore, limit: int
) -> None:
    await fill(store, sessions=3, calls_each=4)

    for now_ms in (1_500, 2_000):
        while swept := await store.sweep(now_ms, limit, STATUS_LIFETIME_MS):
            assert swept <= 3 * limit
            assert await database.read(ORPHANS) == []

    assert await counts(database) == dict.fromkeys(TABLES, 0)


async def test_what_lives_stays_whole_while_the_rest_is_swept(
    database: SqliteDatabase, store: SqlRelayStore
) -> None:
    await fill(store, sessions=2, calls_each=4)
    living = SessionId("living")
    await store.create_session(living, expires_at_ms=9_000)
    call = StoredCall(CallId("call"), living, PAYLOAD, 9_000, 9_000)
    await store.add_call(call, 0, pending_limit=100, messages_to=lambda _: [])

    while await store.sweep(2_000, 1, STATUS_LIFETIME_MS):
        pass

    assert (await store.call(living, CallId("call"), now_ms=2_000)).payload == PAYLOAD
    assert [pending.call_id for pending in (await store.pending_calls(living, 2_000)).calls] == ["call"]
    assert (await counts(database))["sessions"] == 1
