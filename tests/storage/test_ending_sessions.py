"""Ending a session answers every poll for it, whatever becomes of the deleting client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key
from bridge_server.relay.models import (
    CallId,
    CallNotFoundError,
    Payload,
    SessionId,
    SessionNotFoundError,
    StoredCall,
)
from bridge_server.relay.store import RelayStore
from bridge_server.storage.database import NO_TURNS, Database, Result, Transaction, Turns
from tests.storage.notes import turn
from tests.storage.wrapped_database import WrappedDatabase
from tests.support.eventually import eventually
from tests.support.schema_databases import ENGINES, schema_database

SESSION = SessionId("session")
CALLS = [CallId(f"call-{number}") for number in range(3)]
PAYLOAD = Payload(b'"sealed"')


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path, events: Events) -> AsyncIterator[Database]:
    async with schema_database(request, tmp_path, events) as database:
        yield database


@pytest.fixture
async def store(database: Database) -> RelayStore:
    """With a session that has three calls."""
    store = RelayStore(database)
    await store.create_session(SESSION, expires_at_ms=2_000)
    for call_id in CALLS:
        call = StoredCall(call_id, SESSION, PAYLOAD, 1_000, 2_000, 0)
        await store.add_call(call, 0, pending_limit=100, messages_to=lambda _: [])
    return store


async def test_the_session_its_calls_and_their_statuses_are_announced(
    store: RelayStore, heard: list[Key]
) -> None:
    await store.set_status(CALLS[0], PAYLOAD, now_ms=0, expires_at_ms=1_000)
    heard.clear()

    await store.delete_session(SESSION, now_ms=0)

    whole = {(kind, SESSION) for kind in ("session", "calls", "statuses")}
    assert set(heard) == whole | {("status", call) for call in CALLS}


async def test_nothing_of_it_is_known_any_more(store: RelayStore) -> None:
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


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 10, 30, 100, 300])
async def test_a_poll_for_a_status_ends_though_the_deleting_client_left(
    store: RelayStore, heard: list[Key], turns: int
) -> None:
    heard.clear()
    ending = asyncio.ensure_future(store.delete_session(SESSION, now_ms=0))
    await turn(turns)
    ending.cancel()
    with suppress(asyncio.CancelledError):
        await ending

    async def all_were_answered() -> bool:
        return {key for kind, key in heard if kind == "status"} == set(CALLS)

    await eventually(all_were_answered)


class RefusingOnce(WrappedDatabase):
    """A database that cannot serve its second transaction."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._asked = 0

    async def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Result:
        self._asked += 1
        if self._asked == 2:
            raise UnavailableError("Nothing was stored: the disk is full.")
        return await super().transaction(begin, adds=adds, turns=turns)


async def test_a_poll_for_a_status_ends_though_the_database_fails_midway(
    database: Database, store: RelayStore, heard: list[Key]
) -> None:
    heard.clear()

    with suppress(UnavailableError):
        await RelayStore(RefusingOnce(database)).delete_session(SESSION, now_ms=0)

    with pytest.raises(SessionNotFoundError):
        await store.session(SESSION, now_ms=0)
    assert {key for kind, key in heard if kind == "status"} == set(CALLS)
