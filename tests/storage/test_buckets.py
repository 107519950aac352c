"""Token buckets on disk: of clients, of accounts, and those that two processes spend from.

They are arithmetic in SQL, and are held against plain models.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.token_bucket import Limit, Spending, reckoned_anew, spend
from bridge_server.kit.fixtures.background_loop import BackgroundLoop
from bridge_server.notify.models import FailureReason, Failures, Notification, NotifyRequest, Outdated
from bridge_server.notify.store import MissedLimits, NotifyStore, SendingLimits
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.models import Project, ProjectId, Publisher, TypeId
from bridge_server.storage.database import Database, Statement, Transaction
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.buckets import SharedBuckets
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.web.limits import BucketStore, SavedBucket, save
from tests.support.clock import ManualClock
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.rows import each_row
from tests.support.waiting import eventually

# Token buckets on disk: those that are not full, and no others for long.


def bucket(name: str, full_at_us: int, key: str = "192.0.2.1") -> SavedBucket:
    return SavedBucket(name, key, full_at_us, interval_us=10)


async def test_the_last_saved_state_is_loaded(rooms: Database) -> None:
    await rooms.transaction(partial(save, [bucket("sessions", 1_000), bucket("requests", 2_000)]))
    await rooms.transaction(partial(save, [bucket("sessions", 5_000)]))

    loaded = await BucketStore(rooms).load(now_us=0)

    assert sorted(loaded) == [bucket("requests", 2_000), bucket("sessions", 5_000)]


@each_row(("now_us", "is_loaded"), [(999, True), (1_000, False), (1_001, False)])
async def test_a_bucket_that_is_full_again_is_not_loaded(
    rooms: Database, now_us: int, is_loaded: bool
) -> None:
    saved = bucket("sessions", 1_000)
    await rooms.transaction(partial(save, [saved]))

    assert await BucketStore(rooms).load(now_us) == ([saved] if is_loaded else [])


async def test_buckets_that_are_full_again_are_swept_in_slices(rooms: Database) -> None:
    store = BucketStore(rooms)
    full = [bucket("sessions", 5_000_000, key=f"client {number}") for number in range(1_100)]
    left = bucket("sessions", 5_000_001)
    await rooms.transaction(partial(save, [*full, left]))

    slices = [await store.sweep(now_ms=5_000) for _ in range(4)]

    assert sum(slices) == 1_100
    assert slices[-1] == 0
    assert max(slices) <= 500
    assert await store.load(now_us=0) == [left]


# The accounts' buckets in SQL, against a plain model: a number of tokens that refills as time goes by.

NOW = 1_800_000_000_000_000
NOTHING_ELSE = Outdated(0, 0, 0)
ACCOUNTS = ["a:b:1", "a:b:2", "a:b:3", "a:b:4"]
PUBLISHER = Publisher(Project(1, ProjectId("p"), "App", 0, None, None), b"digest")
_SEED = """
INSERT INTO projects (id, project_id, name, created_at_ms) VALUES (1, 'p', 'App', 0);
INSERT INTO project_secrets (project, digest, created_at_ms) VALUES (1, CAST('digest' AS BLOB), 0);
INSERT INTO notification_types (id, project, type_id, name, created_at_ms) VALUES (1, 1, 'news', 'News', 0);
INSERT INTO type_sets (id, project, types, subscribers) VALUES (1, 1, '["news"]', 4);
INSERT INTO type_set_members (type, type_set) VALUES (1, 1)
"""


@dataclass(slots=True)
class ModelBucket:
    """Tokens in units of one microsecond of refilling, as of the last attempt.

    The clock going back takes away what had come back since, down to none at all.
    """

    limit: Limit
    level_us: int
    seen_us: int

    def take(self, now_us: int) -> int:
        """Spend a token; returns 0, or the microseconds until there is one."""
        self.level_us = max(0, min(self.limit.window_us, self.level_us + now_us - self.seen_us))
        self.seen_us = now_us
        if self.level_us < self.limit.interval_us:
            return self.limit.interval_us - self.level_us
        self.level_us -= self.limit.interval_us
        return 0


@dataclass(slots=True)
class Model:
    limit: Limit
    buckets: dict[str, ModelBucket] = field(default_factory=dict)

    def send(self, keys: Sequence[str], now_us: int) -> dict[str, int]:
        """The waiting time of each key that is limited."""
        waits = {}
        for key in dict.fromkeys(keys):
            full = ModelBucket(self.limit, self.limit.window_us, now_us)
            wait = self.buckets.setdefault(key, full).take(now_us)
            if wait:
                waits[key] = wait
        return waits


@asynccontextmanager
async def opened_store(directory: Path) -> AsyncIterator[tuple[SqliteDatabase, NotifyStore]]:
    """A store with one project of one type, to which every account is subscribed."""
    file = directory / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, Events())

    def seed() -> Transaction[None]:
        for statement in _SEED.split(";"):
            yield Statement(statement)
        for number, key in enumerate(ACCOUNTS, 1):
            yield Statement("INSERT INTO accounts (id, account_key) VALUES (?, ?)", (number, key))
            yield Statement("INSERT INTO subscriptions VALUES (1, ?, ?, ?, 1, 0)", (key, number, key))

    async with database.opened():
        await database.transaction(seed)
        yield database, NotifyStore(database)


def _no_message(*_: object) -> OutgoingMessage:
    raise AssertionError("no account has a device")


async def send(store: NotifyStore, limit: Limit, keys: Sequence[str], now_us: int) -> Failures:
    content = Notification(TypeId("news"), "Title", "Body", None)
    request = NotifyRequest(content, None, {key: key for key in keys})
    return await store.send(PUBLISHER, request, SendingLimits(limit, MissedLimits(0)), now_us, _no_message)


async def empty(database: SqliteDatabase) -> None:
    """Forget every bucket: the next example begins with full ones."""

    def work() -> Transaction[None]:
        yield Statement("DELETE FROM account_buckets")

    await database.transaction(work)


limits = st.builds(
    Limit, name=st.just("account"), burst=st.integers(1, 12), interval_us=st.integers(1, 3_600_000_000)
)


# How far the clock moves, in thousandths of the limit's interval and odd microseconds; and who is sent to.
_keys = st.lists(st.sampled_from(ACCOUNTS), min_size=1, max_size=4)
_forwards = st.one_of(st.integers(0, 2_500), st.sampled_from([0, 1_000]))
_anywhere = st.one_of(_forwards, st.integers(-20_000, 20_000))
steps_forwards = st.lists(st.tuples(_forwards, st.integers(0, 1), _keys), min_size=1, max_size=25)
steps_anywhere = st.lists(st.tuples(_anywhere, st.integers(-1, 1), _keys), min_size=1, max_size=25)
Steps: TypeAlias = list[tuple[int, int, list[str]]]


Shared: TypeAlias = tuple[BackgroundLoop, SqliteDatabase, NotifyStore]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """One store for many examples."""
    loop, stack = BackgroundLoop(), AsyncExitStack()
    opening = stack.enter_async_context(opened_store(tmp_path_factory.mktemp("buckets")))
    database, store = loop.run(opening)
    yield loop, database, store
    loop.run(stack.aclose())
    loop.stop()


@given(limit=limits, steps=steps_anywhere)
def test_limits_and_waiting_times_of_accounts_agree_with_the_model(
    shared: Shared, limit: Limit, steps: Steps
) -> None:
    loop, database, store = shared
    loop.run(_compare(database, store, limit, steps, is_swept=False))


@given(limit=limits, steps=steps_forwards)
def test_to_forget_full_buckets_changes_nothing(shared: Shared, limit: Limit, steps: Steps) -> None:
    loop, database, store = shared
    loop.run(_compare(database, store, limit, steps, is_swept=True))


async def _compare(
    database: SqliteDatabase, store: NotifyStore, limit: Limit, steps: Steps, *, is_swept: bool
) -> None:
    await empty(database)
    model, now_us = Model(limit), NOW
    for thousandths, offset_us, keys in steps:
        now_us += thousandths * limit.interval_us // 1_000 + offset_us
        expected = model.send(keys, now_us)
        while is_swept and await store.sweep(now_us // 1_000, NOTHING_ELSE):
            pass

        failures = await send(store, limit, keys, now_us)

        assert {key: failure.retry_after_us for key, failure in failures.items()} == expected
        assert {failure.reason for failure in failures.values()} <= {FailureReason.RATE_LIMITED}


@pytest.mark.parametrize(("passed_us", "is_there"), [(999, True), (1_000, False)])
async def test_a_bucket_is_swept_once_it_is_full_and_not_before(
    tmp_path: Path, passed_us: int, is_there: bool
) -> None:
    limit = Limit("account", burst=3, interval_us=1_000)
    async with opened_store(tmp_path) as (database, store):
        await send(store, limit, ACCOUNTS, NOW - 1_000)
        await send(store, limit, ACCOUNTS[:1], NOW - 1_000)

        await store.sweep((NOW - 1_000) // 1_000 + passed_us // 1_000, NOTHING_ELSE)

        rows = await database.read("SELECT account FROM account_buckets ORDER BY account")
        assert rows == ([(1,), (2,), (3,), (4,)] if is_there else [(1,)])


async def test_a_bucket_is_swept_in_its_time_though_the_clock_was_set_back(tmp_path: Path) -> None:
    limit = Limit("account", burst=2, interval_us=1_000)
    back_us = NOW - 10**15
    async with opened_store(tmp_path) as (database, store):
        await send(store, limit, ACCOUNTS[:1], NOW)
        await send(store, limit, ACCOUNTS[:1], back_us)

        left = []
        for passed_us in (1_000, 2_000):
            await store.sweep((back_us + passed_us) // 1_000, NOTHING_ELSE)
            left += await database.read("SELECT count(*) FROM account_buckets")

    assert left == [(1,), (0,)]


async def test_buckets_are_swept_in_slices_and_none_is_looked_at_for_ever(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as (database, store):

        def fill() -> Transaction[None]:
            yield Statement("DELETE FROM account_buckets")
            yield Statement(
                """
                WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2300)
                INSERT INTO account_buckets (project, account, full_at_us, interval_us, sweep_at_us)
                SELECT 1, n, 1000000 + (n % 2) * 1000000, 1000000, 1000000 FROM numbers
                """
            )

        await database.transaction(fill)

        slices = [await store.sweep(1_000, NOTHING_ELSE) for _ in range(12)]

        assert slices[-1] == 0
        assert max(slices) <= 1_000
        assert await database.read("SELECT count(*), min(full_at_us) FROM account_buckets") == [
            (1_150, 2_000_000)
        ]


# Token buckets that two processes spend from: exact, by the arithmetic of the buckets in memory.

HOUR_US = 3_600_000_000
LIMITS = (
    Limit("calls", burst=5, interval_us=1_000_000),
    Limit("calls", burst=3, interval_us=7_000_000),
    Limit("calls", burst=40, interval_us=333_333),
)
BYTES = (Limit("bytes", 5_000, 11_000, 1_024), Limit("bytes", 1_000_000, 3_600, 1_024))


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database("bridge")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def processes(url: str, clock: ManualClock) -> AsyncIterator[Sequence[SharedBuckets]]:
    async with AsyncExitStack() as stack:
        yield [await opened(url, clock, stack) for _ in range(2)]


async def opened(url: str, clock: ManualClock, stack: AsyncExitStack) -> SharedBuckets:
    database = PostgresDatabase(url, Events(), {})
    await stack.enter_async_context(database.opened())
    buckets = SharedBuckets(database.link, clock)
    await stack.enter_async_context(buckets.opened())
    return buckets


async def allowed(buckets: SharedBuckets, limit: Limit, key: str, tokens: int = 1) -> bool:
    return (await buckets.spend(limit, key, tokens)).spending.allowed


@needs_postgres
async def test_two_processes_spend_exactly_what_there_is(processes: Sequence[SharedBuckets]) -> None:
    limit, random = Limit("calls", burst=50, interval_us=HOUR_US), Random(1)
    keys = [f"{number}" for number in range(100)] * 30
    orders = [random.sample(keys, len(keys)) for _ in processes]

    outcomes: list[bool] = []
    for start in range(0, len(keys), 1_500):
        slices = [order[start : start + 1_500] for order in orders]
        outcomes += await asyncio.gather(
            *(
                allowed(process, limit, key)
                for process, order in zip(processes, slices, strict=True)
                for key in order
            )
        )

    assert (len(outcomes), sum(outcomes)) == (6_000, 5_000)


@needs_postgres
async def test_charges_of_one_moment_are_refused_from_the_first_too_many(
    processes: Sequence[SharedBuckets],
) -> None:
    limit = Limit("calls", burst=10, interval_us=HOUR_US)

    spent = await asyncio.gather(*(processes[0].spend(limit, "a", 1) for _ in range(100)))

    found = [(each.spending.allowed, each.spending.remaining) for each in spent]
    assert found == [(True, left) for left in range(9, -1, -1)] + [(False, 0)] * 90
    assert spent[-1].spending.retry_after_us == HOUR_US


@needs_postgres
async def test_a_large_charge_that_is_refused_leaves_room_for_small_ones(
    processes: Sequence[SharedBuckets],
) -> None:
    limit = Limit("bytes", burst=10, interval_us=HOUR_US)

    asked = [4, 7, 9, 5, 1, 2]
    outcomes = await asyncio.gather(*(allowed(processes[0], limit, "a", tokens) for tokens in asked))

    assert outcomes == [True, False, False, True, True, False]


@needs_postgres
async def test_a_charge_of_more_than_a_whole_bucket_is_refused(processes: Sequence[SharedBuckets]) -> None:
    limit = Limit("calls", burst=2, interval_us=HOUR_US)

    assert not await allowed(processes[0], limit, "a", 3)
    assert await allowed(processes[1], limit, "a", 2)


@needs_postgres
async def test_returned_tokens_can_be_spent_by_another_process(processes: Sequence[SharedBuckets]) -> None:
    first, second = processes
    limit = Limit("calls", burst=2, interval_us=HOUR_US)
    assert await allowed(first, limit, "a", 2)
    assert not await allowed(second, limit, "a")

    await first.spend(limit, "a", -1)

    assert [await allowed(second, limit, "a"), await allowed(second, limit, "a")] == [True, False]


@needs_postgres
async def test_extra_tokens_are_had_only_if_there_are_as_many(processes: Sequence[SharedBuckets]) -> None:
    limit = Limit("calls", burst=10, interval_us=HOUR_US)

    asked = [await processes[0].spend(limit, "a", 1, extra=3) for _ in range(5)]

    found = [(each.spending.allowed, each.extra, each.spending.remaining) for each in asked]
    assert found == [(True, 3, 6), (True, 3, 2), (True, 0, 1), (True, 0, 0), (False, 0, 0)]


@needs_postgres
async def test_extra_tokens_are_one_callers_of_a_moment(processes: Sequence[SharedBuckets]) -> None:
    limit = Limit("calls", burst=100, interval_us=HOUR_US)

    spent = await asyncio.gather(*(processes[0].spend(limit, "a", 1, extra=5) for _ in range(10)))

    assert [each.extra for each in spent] == [0] * 9 + [5]
    assert spent[-1].spending.remaining == 85


@needs_postgres
async def test_a_clock_that_is_a_little_behind_takes_nothing_of_the_debt(
    url: str, clock: ManualClock
) -> None:
    limit = Limit("calls", burst=3, interval_us=100_000)
    slow = ManualClock()
    slow.set_by(-1.9)
    async with AsyncExitStack() as stack:
        right, behind = await opened(url, clock, stack), await opened(url, slow, stack)
        assert await allowed(right, limit, "a", 3)

        for tokens in (1, 0, -1, 1):
            await behind.spend(limit, "a", tokens)

        assert [await allowed(right, limit, "a") for _ in range(2)] == [True, False]


@needs_postgres
async def test_without_its_connection_nothing_is_let_through(
    url: str, processes: Sequence[SharedBuckets]
) -> None:
    first = processes[0]
    assert await allowed(first, LIMITS[0], "a")
    assert first._link is not None
    first._link.drop()

    with pytest.raises(UnavailableError):
        await first.spend(LIMITS[0], "a", 1)

    async def is_back() -> bool:
        try:
            return await allowed(first, LIMITS[0], "a")
        except UnavailableError:
            return False

    await eventually(is_back)


@needs_postgres
async def test_a_lock_in_the_database_is_no_reason_to_let_through(
    short_lock_waits: None, url: str, processes: Sequence[SharedBuckets]
) -> None:
    assert await allowed(processes[0], LIMITS[0], "a")
    async with connected(url) as other, other.transaction():
        await other.execute("SELECT FROM buckets FOR UPDATE")

        with pytest.raises(UnavailableError, match="holds a lock"):
            await processes[0].spend(LIMITS[0], "a", 1)

    assert await allowed(processes[0], LIMITS[0], "a")


@dataclass
class BucketInMemory:
    """The bucket in memory."""

    full_at_us: int = 0
    interval_us: int | None = None

    def spend(self, limit: Limit, tokens: int, now_us: int) -> Spending:
        before_us = self.interval_us or limit.interval_us
        anew_us = reckoned_anew(self.full_at_us, now_us, before_us, limit.interval_us, limit.gain)
        spending = spend(limit, anew_us, now_us, tokens)
        if spending.full_at_us < now_us:  # more was given back than it owed
            spending = spend(limit, now_us, now_us, cost=0)
        self.full_at_us, self.interval_us = spending.full_at_us, limit.interval_us
        return spending


@pytest.fixture(scope="module")
def alone(postgres: PostgresServer) -> Iterator[tuple[BackgroundLoop, SharedBuckets, ManualClock]]:
    """One process for many examples."""
    loop, stack, clock = BackgroundLoop(), AsyncExitStack(), ManualClock()

    async def start() -> SharedBuckets:
        return await opened(await postgres.database("bridge"), clock, stack)

    yield loop, loop.run(start()), clock
    loop.run(stack.aclose())
    loop.stop()


KEYS = count()
STEPS = st.tuples(
    st.integers(-3, 45),
    st.one_of(st.just(0), st.integers(0, 30_000_000), st.just(-HOUR_US)),
    st.integers(0, 2),
)


@needs_postgres
@given(steps=st.lists(STEPS, max_size=25), is_bytes=st.booleans())
def test_the_arithmetic_is_that_of_the_buckets_in_memory(
    alone: tuple[BackgroundLoop, SharedBuckets, ManualClock],
    steps: list[tuple[int, int, int]],
    is_bytes: bool,
) -> None:
    """Charges of any cost, by a clock that moves on or is set back, and by limits that change."""
    loop, buckets, clock = alone
    key, model = str(next(KEYS)), BucketInMemory()
    for tokens, moved_us, which in steps:
        clock.advance(moved_us / 1_000_000)
        limit = BYTES[which % 2] if is_bytes else LIMITS[which]
        cost = tokens * (997 if is_bytes else 1)
        expected = model.spend(limit, cost, clock.now_us())
        assert loop.run(buckets.spend(limit, key, cost)).spending == expected
