"""Ending a session, as the store does it: whoever waits for anything of it hears, whatever becomes of the caller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.signals import Key, Signals
from bridge_server.relay.errors import CallNotFoundError, SessionNotFoundError
from bridge_server.relay.models import CallId, Payload, SessionId, StoredCall
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.relay_store import SqlRelayStore
from bridge_server.storage.sqlite import SqliteDatabase
from tests.storage.notes import turn

SESSION = SessionId("session")
CALLS = [CallId(f"call-{number}") for number in range(3)]
PAYLOAD = Payload(b'"sealed"')


@pytest.fixture
async def store(tmp_path: Path, signals: Signals) -> AsyncIterator[SqlRelayStore]:
    file = tmp_path / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, signals)
    async with database.opened():
        store = SqlRelayStore(database)
        await store.create_session(SESSION, expires_at_ms=2_000)
        for call_id in CALLS:
            call = StoredCall(call_id, SESSION, PAYLOAD, 1_000, 2_000)
            await store.add_call(call, 0, pending_limit=100, messages_to=lambda _: [])
        yield store


async def test_the_session_its_calls_and_their_statuses_are_announced(
    store: SqlRelayStore, heard: list[Key]
) -> None:
    await store.set_status(CALLS[0], PAYLOAD, now_ms=0, expires_at_ms=1_000)
    heard.clear()

    await store.delete_session(SESSION, now_ms=0)

    assert set(heard) == {("session", SESSION), ("calls", SESSION), *(("status", call) for call in CALLS)}


async def test_nothing_of_it_is_known_any_more(store: SqlRelayStore) -> None:
    await store.set_status(CALLS[0], PAYLOAD, now_ms=0, expires_at_ms=1_000)

    await store.delete_session(SESSION, now_ms=0)

    with pytest.raises(SessionNotFoundError):
        await store.session(SESSION, now_ms=0)
    with pytest.raises(SessionNotFoundError):
        await store.pending_calls(SESSION, now_ms=0)
    for call_id in CALLS:
        with pytest.raises(CallNotFoundError):
            await store.status(call_id, now_ms=0)
        with pytest.raises(CallNotFoundError):
            await store.call(SESSION, call_id, now_ms=0)
    with pytest.raises(SessionNotFoundError):
        await store.delete_session(SESSION, now_ms=0)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 300])
async def test_who_waits_for_a_status_hears_of_it_though_the_caller_left(
    store: SqlRelayStore, heard: list[Key], turns: int
) -> None:
    heard.clear()
    ending = asyncio.create_task(store.delete_session(SESSION, now_ms=0))
    await turn(turns)
    ending.cancel()
    with suppress(asyncio.CancelledError):
        await ending

    await store.create_session(SessionId("later"), expires_at_ms=2_000)

    assert {key for kind, key in heard if kind == "status"} == set(CALLS)


async def test_a_caller_who_is_told_to_come_back_can_still_end_it(
    store: SqlRelayStore, heard: list[Key], monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction, refused = SqliteDatabase.transaction, [UnavailableError("the disk is full")]

    async def second_write_is_refused(self: SqliteDatabase, begin: object) -> object:
        if len(refused) == 0:
            return await transaction(self, begin)  # type: ignore[arg-type]
        result = await transaction(self, begin)  # type: ignore[arg-type]
        monkeypatch.setattr(SqliteDatabase, "transaction", third_write_works)
        return result

    async def third_write_works(self: SqliteDatabase, begin: object) -> object:
        if refused:
            raise refused.pop()
        return await transaction(self, begin)  # type: ignore[arg-type]

    heard.clear()
    monkeypatch.setattr(SqliteDatabase, "transaction", second_write_is_refused)

    for _ in range(2):
        with suppress(UnavailableError):
            await store.delete_session(SESSION, now_ms=0)
            break

    assert {key for kind, key in heard if kind == "status"} == set(CALLS)
