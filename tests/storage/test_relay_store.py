"""The relay's store: what expires is swept in slices, and the end of a session answers every poll.

The store is asked on both engines: a sweep meets a renewed session only by chance.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from bridge_server.assembly.postgres_overrides import OVERRIDES
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.signals import Key
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.outbox import topics
from bridge_server.relay import models
from bridge_server.relay import store as relay_sql
from bridge_server.relay.models import CallId, Payload, SessionId, StoredCall
from bridge_server.relay.service import relay_sweeps
from bridge_server.relay.store import RelayStore, RelaySweepStore
from bridge_server.storage.database import Database, Transaction, Value
from bridge_server.storage.postgres.statements import swept, translated
from tests.support.clock import ManualClock
from tests.support.postgres import PostgresServer, connected
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.waiting import turns as turn


def interrupted(database: Database, before: Callable[[int], Awaitable[None]]) -> Any:
    """A database that does something else before each transaction, which has a number."""
    numbers = count(1)

    async def transaction(begin: Callable[[], Transaction[Any]], **options: Any) -> Any:
        await before(next(numbers))
        return await database.transaction(begin, **options)

    own = {"transaction": transaction, "is_busy": False, "is_full": False}
    kept = ("takes_turns", "require_room", "read", "look_up")
    return SimpleNamespace(**own, **{name: getattr(database, name) for name in kept})


PAYLOAD = Payload(b'"sealed"')
CALLS_END_MS, SESSIONS_END_MS = 1_000, 2_000


@pytest.fixture
def store(rooms: Database) -> RelayStore:
    return RelayStore(rooms)


async def add_call(store: RelayStore, session_id: SessionId, call_id: str, ends_ms: int) -> CallId:
    call = StoredCall(CallId(call_id), session_id, PAYLOAD, ends_ms, SESSIONS_END_MS, 0)
    await store.add_call(call, 0, pending_limit=100, messages_to=lambda _: [])
    return call.call_id


async def sweep(store: RelayStore, now_ms: int) -> None:
    sweeps = relay_sweeps(RelaySweepStore(store.database))
    await Sweeper(sweeps, ManualClock(now_ms), interval_seconds=1).sweep()


async def test_a_new_session_has_no_calls_of_an_ended_one(rooms: Database, store: RelayStore) -> None:
    async def counts() -> list[Value]:
        return [(await rooms.read(f"SELECT count(*) FROM {table}"))[0][0] for table in ("sessions", "calls")]

    ended, new = SessionId("ended"), SessionId("new")
    await store.create_session(ended, SESSIONS_END_MS)
    call_id = await add_call(store, ended, "call", ends_ms=9_000)
    await store.delete_session(ended, now_ms=0)
    await sweep(store, 5_000)
    await store.create_session(new, 9_000)
    await sweep(store, 5_000)

    assert (await store.pending_calls(new, 5_000)).calls == ()
    assert await counts() == [1, 1]
    with pytest.raises(models.CallNotFoundError):
        await store.status(call_id, 5_000)
    await sweep(store, 9_000)
    assert await counts() == [0, 0]


async def test_a_session_renewed_after_it_expired_is_kept(rooms: Database, store: RelayStore) -> None:
    session_id = SessionId("session")
    await store.create_session(session_id, SESSIONS_END_MS)
    call_id = await add_call(store, session_id, "call", CALLS_END_MS)
    await store.create_session(SessionId("newest"), 9_000)

    async def prolong(_: int) -> None:  # by requests that were on their way when the session expired
        await store.update_session(
            session_id, models.SessionUpdate(PAYLOAD, models.Keep.KEEP), now_ms=0, expires_at_ms=9_000
        )

    async def answer(_: int) -> None:
        await store.set_status(call_id, PAYLOAD, now_ms=0, expires_at_ms=9_000)

    calls = await RelaySweepStore(interrupted(rooms, answer)).sweep_calls(5_000, 0, 10, 10)
    sessions = await RelaySweepStore(interrupted(rooms, prolong)).sweep_sessions(5_000, 0, 10, 10)

    assert (calls.deleted, sessions.deleted) == (0, 0)
    assert (await store.status(call_id, 5_000)).payload == PAYLOAD


async def until_waiting(watching: Any) -> None:
    """Return once a statement waits for the lock of another."""
    waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

    async def waits() -> Any:
        return await watching.fetchval(f"SELECT count(*) {waiting}")

    await eventually(waits)


async def test_a_row_that_is_prolonged_while_it_is_swept_stays(postgres: PostgresServer) -> None:
    url, prolong = await postgres.database("bridge"), translated(topics.UPSERT)
    async with connected(url) as prolonging, connected(url) as sweeping, connected(url) as watching:
        for webhook in ("https://a.example", "https://b.example"):
            await prolonging.execute(prolong, "topic", webhook, 1_000)
        async with prolonging.transaction():
            await prolonging.execute(prolong, "topic", "https://a.example", 9_000)
            deleting = asyncio.create_task(sweeping.execute(translated(OVERRIDES[topics.SWEEP]), 2_000, 500))
            await until_waiting(watching)

        assert await deleting == "DELETE 1"
        left = await watching.fetch("SELECT webhook FROM topic_webhooks")
        assert [row[0] for row in left] == ["https://a.example"]


@each_row("has_one_before", [False, True])
async def test_a_call_answered_while_swept_stays(postgres: PostgresServer, has_one_before: bool) -> None:
    url = await postgres.database("bridge")
    answer, sweep = translated(relay_sql.UPSERT_STATUS), translated(OVERRIDES[relay_sql.SWEEP_CALL])
    async with connected(url) as answering, connected(url) as sweeping, connected(url) as watching:
        session = await answering.fetchval(
            "INSERT INTO sessions (session_id, expires_at_ms) VALUES ('s', 9000) RETURNING id"
        )
        call = await answering.fetchval(
            "INSERT INTO calls (call_id, session, expires_at_ms, listed, payload)"
            " VALUES ('c', $1, 1000, 1, '') RETURNING id",
            session,
        )
        if has_one_before:
            await answering.execute(answer, call, 2_000, b"first")
        async with answering.transaction():
            await answering.execute(answer, call, 9_000, b"last")
            deleting = asyncio.create_task(sweeping.execute(sweep, call, 3_000, 3_000))
            await until_waiting(watching)

        assert await deleting == "DELETE 0"
        assert await watching.fetchval("SELECT payload FROM call_statuses") == b"last"
        assert await sweeping.execute(sweep, call, 9_000, 9_000) == "DELETE 1"
        assert await watching.fetchval("SELECT count(*) FROM call_statuses") == 0


def test_another_statement_is_no_sweep() -> None:
    with pytest.raises(ValueError, match="is no sweep"):
        swept("DELETE FROM a WHERE b = ?")


SESSION = SessionId("session")
CALLS = [CallId(f"call-{number}") for number in range(3)]


async def add_session(store: RelayStore) -> None:
    """A session that has three calls."""
    await store.create_session(SESSION, SESSIONS_END_MS)
    for call_id in CALLS:
        await add_call(store, SESSION, call_id, CALLS_END_MS)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 10, 30, 100, 300])
async def test_polls_end_though_the_client_left(store: RelayStore, heard: list[Key], turns: int) -> None:
    await add_session(store)
    heard.clear()
    ending = asyncio.ensure_future(store.delete_session(SESSION, now_ms=0))
    await turn(turns)
    ending.cancel()
    with suppress(asyncio.CancelledError):
        await ending
    await eventually(lambda: {key for kind, key in heard if kind == "status"} == set(CALLS))


async def test_polls_end_though_writes_fail(rooms: Database, store: RelayStore, heard: list[Key]) -> None:
    await add_session(store)
    heard.clear()

    async def fail_midway(number: int) -> None:
        if number == 2:
            raise UnavailableError("Nothing was stored: the disk is full.")

    with suppress(UnavailableError):
        await RelayStore(interrupted(rooms, fail_midway)).delete_session(SESSION, now_ms=0)

    with pytest.raises(models.SessionNotFoundError):
        await store.session(SESSION, now_ms=0)
    assert {key for kind, key in heard if kind == "status"} == set(CALLS)
