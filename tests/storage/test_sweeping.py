"""Sweeping deletes what has expired, a slice at a time, passes over what lives, and forgets nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.outbox.topics import Topic
from bridge_server.relay.models import (
    CallId,
    CallNotFoundError,
    Keep,
    Payload,
    SessionId,
    SessionUpdate,
    StoredCall,
)
from bridge_server.relay.service import relay_sweeps
from bridge_server.relay.store import RelayStore, RelaySweepStore
from bridge_server.storage.database import NO_TURNS, Database, Result, Transaction, Turns, Value
from tests.storage.wrapped_database import WrappedDatabase
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.schema_databases import ENGINES, schema_database

TABLES = ("sessions", "calls", "call_statuses", "topic_webhooks")
PAYLOAD = Payload(b'"sealed"')
CALLS_END_MS, SESSIONS_END_MS = 1_000, 2_000


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path, events: Events) -> AsyncIterator[Database]:
    async with schema_database(request, tmp_path, events) as database:
        yield database


@pytest.fixture
def store(database: Database) -> RelayStore:
    return RelayStore(database)


async def add_call(store: RelayStore, session_id: SessionId, call_id: str, ends_ms: int) -> CallId:
    call = StoredCall(CallId(call_id), session_id, PAYLOAD, ends_ms, SESSIONS_END_MS, 0)
    await store.add_call(call, 0, pending_limit=100, messages_to=lambda _: [])
    return call.call_id


async def fill(store: RelayStore, sessions: int, calls_each: int) -> None:
    """Sessions with calls, every second one answered, and each with a webhook."""
    for number in range(sessions):
        session_id = SessionId(f"session-{number}")
        await store.create_session(session_id, SESSIONS_END_MS)
        for call_number in range(calls_each):
            call_id = await add_call(store, session_id, f"{session_id}-{call_number}", CALLS_END_MS)
            if call_number % 2:
                await store.set_status(call_id, PAYLOAD, now_ms=0, expires_at_ms=1_200)
        await store.subscribe(Topic(session_id), "https://example.org", 0, 1_500, webhook_limit=16)


async def sweep(store: RelayStore, now_ms: int) -> None:
    await Sweeper(
        relay_sweeps(RelaySweepStore(store.database)), ManualClock(now_ms), interval_seconds=1
    ).sweep()


async def counts(database: Database) -> dict[str, Value]:
    return {table: (await database.read(f"SELECT count(*) FROM {table}"))[0][0] for table in TABLES}


@pytest.mark.parametrize(
    ("now_ms", "left"),
    [
        (CALLS_END_MS - 1, (2, 8, 4, 2)),
        (CALLS_END_MS, (2, 4, 4, 2)),
        (1_199, (2, 4, 4, 2)),
        (1_200, (2, 0, 0, 2)),
        (1_500, (2, 0, 0, 0)),
        (SESSIONS_END_MS - 1, (2, 0, 0, 0)),
        (SESSIONS_END_MS, (0, 0, 0, 0)),
    ],
)
async def test_each_row_goes_at_its_time_and_a_call_with_its_status_no_sooner_than_that(
    database: Database, store: RelayStore, now_ms: int, left: tuple[int, ...]
) -> None:
    await fill(store, sessions=2, calls_each=4)

    await sweep(store, now_ms)

    assert await counts(database) == dict(zip(TABLES, left, strict=True))


@each_row(("span", "limit"), [(1, 1), (3, 2), (1000, 5)])
async def test_slice_after_slice_everything_goes(
    database: Database, store: RelayStore, span: int, limit: int
) -> None:
    await fill(store, sessions=3, calls_each=4)

    sweeps = RelaySweepStore(database)
    for sweep_slice in (sweeps.sweep_calls, sweeps.sweep_sessions):
        after: int | None = 0
        while after is not None:
            swept = await sweep_slice(SESSIONS_END_MS, after, span, limit)
            assert swept.deleted <= limit
            assert swept.last is None or swept.last > after
            after = swept.last

    assert await counts(database) == {**dict.fromkeys(TABLES, 0), "topic_webhooks": 3}


async def test_a_living_row_is_passed_over_wherever_it_stands(database: Database, store: RelayStore) -> None:
    await fill(store, sessions=60, calls_each=1)
    living = [SessionId(f"session-{number}") for number in (0, 1, 30, 31, 59)]
    update = SessionUpdate(PAYLOAD, Keep.KEEP)
    for session_id in living:
        await store.update_session(session_id, update, now_ms=0, expires_at_ms=9_000)
    kept = await add_call(store, living[0], "kept", ends_ms=9_000)
    await store.set_status(CallId("session-30-0"), PAYLOAD, now_ms=0, expires_at_ms=9_000)

    await sweep(store, 5_000)

    assert list((await counts(database)).values()) == [5, 2, 1, 0]
    assert (await store.call(living[0], kept, 5_000)).payload == PAYLOAD
    assert [call.call_id for call in (await store.pending_calls(living[0], 5_000)).calls] == [kept]
    for session_id in living:
        assert (await store.session(session_id, 5_000)).payload == PAYLOAD
    assert (await store.status(CallId("session-30-0"), 5_000)).payload == PAYLOAD


class Meanwhile(WrappedDatabase):
    """A database in which something else is committed before the first transaction."""

    def __init__(self, database: Database, work: Callable[[], Awaitable[None]]) -> None:
        super().__init__(database)
        self._work: Callable[[], Awaitable[None]] | None = work

    async def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Result:
        work, self._work = self._work, None
        if work is not None:
            await work()
        return await super().transaction(begin, adds=adds, turns=turns)


async def test_a_session_renewed_after_it_was_found_expired_is_kept(
    database: Database, store: RelayStore
) -> None:
    await fill(store, sessions=1, calls_each=1)
    await store.create_session(SessionId("newest"), 9_000)

    async def prolong() -> None:  # by requests that were on their way when the session expired
        update = SessionUpdate(PAYLOAD, Keep.KEEP)
        await store.update_session(SessionId("session-0"), update, now_ms=0, expires_at_ms=9_000)

    async def answer() -> None:
        await store.set_status(CallId("session-0-0"), PAYLOAD, now_ms=0, expires_at_ms=9_000)

    calls = await RelaySweepStore(Meanwhile(database, answer)).sweep_calls(5_000, 0, 10, 10)
    sessions = await RelaySweepStore(Meanwhile(database, prolong)).sweep_sessions(5_000, 0, 10, 10)

    assert (calls.deleted, sessions.deleted) == (0, 0)
    assert (await store.status(CallId("session-0-0"), 5_000)).payload == PAYLOAD


async def test_a_new_session_has_none_of_the_calls_of_an_ended_one(
    database: Database, store: RelayStore
) -> None:
    ended, new = SessionId("ended"), SessionId("new")
    await store.create_session(ended, SESSIONS_END_MS)
    call_id = await add_call(store, ended, "call", ends_ms=9_000)
    await store.delete_session(ended, now_ms=0)
    await sweep(store, 5_000)

    await store.create_session(new, 9_000)
    await sweep(store, 5_000)

    assert (await store.pending_calls(new, 5_000)).calls == ()
    assert await counts(database) == {**dict.fromkeys(TABLES, 0), "sessions": 1, "calls": 1}
    with pytest.raises(CallNotFoundError):
        await store.status(call_id, 5_000)
    await sweep(store, 9_000)
    assert await counts(database) == dict.fromkeys(TABLES, 0)
