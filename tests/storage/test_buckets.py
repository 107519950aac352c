"""Token buckets on disk: of clients, of accounts, and those that two processes spend from.

White-box: they are arithmetic in SQL, and are held against plain models.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.token_bucket import Limit, Spending, reckoned_anew, spend
from bridge_server.kit.fixtures.background_loop import BackgroundLoop
from bridge_server.notify.models import FailureReason, Notification, NotifyRequest, Outdated
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
from tests.support.postgres import PostgresServer, connected
from tests.support.waiting import eventually


async def test_buckets_that_are_full_again_are_swept_in_slices(rooms: Database) -> None:
    store = BucketStore(rooms)
    full = [SavedBucket("sessions", f"client {number}", 5_000_000, 10) for number in range(1_100)]
    left = SavedBucket("sessions", "192.0.2.1", 5_000_001, 10)
    await rooms.transaction(partial(save, [*full, left]))

    slices = [await store.sweep(now_ms=5_000) for _ in range(4)]

    assert (sum(slices), slices[-1]) == (1_100, 0)
    assert max(slices) <= 500
    assert await store.load(now_us=0) == [left]


NOW = 1_800_000_000_000_000
ACCOUNTS = ["a:b:1", "a:b:2", "a:b:3", "a:b:4"]
PUBLISHER = Publisher(Project(1, ProjectId("p"), "App", 0, None, None), b"digest")
_SEED = """
INSERT INTO projects (id, project_id, name, created_at_ms) VALUES (1, 'p', 'App', 0);
INSERT INTO project_secrets (project, digest, created_at_ms) VALUES (1, CAST('digest' AS BLOB), 0);
INSERT INTO notification_types (id, project, type_id, name, created_at_ms) VALUES (1, 1, 'news', 'News', 0);
INSERT INTO type_sets (id, project, types, subscribers) VALUES (1, 1, '["news"]', 4);
INSERT INTO type_set_members (type, type_set) VALUES (1, 1)
"""


@dataclass
class BucketInMemory:
    """A bucket by the arithmetic of `token_bucket`, which is held against a plain model of its own."""

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


def forget_every_bucket() -> Transaction[None]:
    yield Statement("DELETE FROM account_buckets")


limits = st.builds(
    Limit, name=st.just("account"), burst=st.integers(1, 12), interval_us=st.integers(1, 3_600_000_000)
)


# How far the clock moves, in thousandths of the limit's interval and odd microseconds; and who is sent to.
_keys = st.lists(st.sampled_from(ACCOUNTS), min_size=1, max_size=4)
_forwards = st.one_of(st.integers(0, 2_500), st.sampled_from([0, 1_000]))
_anywhere = st.one_of(_forwards, st.integers(-20_000, 20_000))
runs = st.one_of(
    [
        st.tuples(st.just(is_swept), st.lists(st.tuples(moves, odd, _keys), min_size=1, max_size=25))
        for is_swept, moves, odd in (
            (False, _anywhere, st.integers(-1, 1)),
            (True, _forwards, st.integers(0, 1)),
        )
    ]
)


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BackgroundLoop, SqliteDatabase, NotifyStore]]:
    """One store for many examples."""
    loop, stack = BackgroundLoop(), AsyncExitStack()
    opening = stack.enter_async_context(opened_store(tmp_path_factory.mktemp("buckets")))
    yield loop, *loop.run(opening)
    loop.run(stack.aclose())
    loop.stop()


@given(limits, runs)
def test_limits_of_accounts_agree_with_the_model_also_when_full_buckets_are_forgotten(
    shared: tuple[BackgroundLoop, SqliteDatabase, NotifyStore],
    limit: Limit,
    run: tuple[bool, list[tuple[int, int, list[str]]]],
) -> None:
    loop, database, store = shared
    is_swept, steps = run

    async def compare() -> None:
        await database.transaction(forget_every_bucket)
        model, now_us = {key: BucketInMemory() for key in ACCOUNTS}, NOW
        for thousandths, offset_us, keys in steps:
            now_us += thousandths * limit.interval_us // 1_000 + offset_us
            spent = {key: model[key].spend(limit, 1, now_us) for key in dict.fromkeys(keys)}
            while is_swept and await store.sweep(now_us // 1_000, Outdated(0, 0, 0)):
                pass

            content = Notification(TypeId("news"), "Title", "Body", None)
            request = NotifyRequest(content, None, {key: key for key in keys})
            limits = SendingLimits(limit, MissedLimits(0))
            failures = await store.send(PUBLISHER, request, limits, now_us, _no_message)

            assert {key: failure.retry_after_us for key, failure in failures.items()} == {
                key: spending.retry_after_us for key, spending in spent.items() if not spending.allowed
            }
            assert {failure.reason for failure in failures.values()} <= {FailureReason.RATE_LIMITED}

    loop.run(compare())


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


async def opened(url: str, clock: ManualClock, stack: AsyncExitStack) -> SharedBuckets:
    database = PostgresDatabase(url, Events(), {})
    await stack.enter_async_context(database.opened())
    buckets = SharedBuckets(database.link, clock)
    await stack.enter_async_context(buckets.opened())
    return buckets


@pytest.fixture
async def processes(url: str, clock: ManualClock) -> AsyncIterator[Sequence[SharedBuckets]]:
    async with AsyncExitStack() as stack:
        yield [await opened(url, clock, stack) for _ in range(2)]


async def allowed(buckets: SharedBuckets, limit: Limit, key: str, tokens: int = 1) -> bool:
    return (await buckets.spend(limit, key, tokens)).spending.allowed


async def test_two_processes_spend_exactly_what_there_is(processes: Sequence[SharedBuckets]) -> None:
    limit, random = Limit("calls", burst=50, interval_us=HOUR_US), Random(1)
    keys = [f"{number}" for number in range(100)] * 30
    orders = [(process, random.sample(keys, len(keys))) for process in processes]

    outcomes: list[bool] = []
    for start in range(0, len(keys), 1_500):
        spending = [
            allowed(each, limit, key) for each, order in orders for key in order[start : start + 1_500]
        ]
        outcomes += await asyncio.gather(*spending)
    assert (len(outcomes), sum(outcomes)) == (6_000, 5_000)


async def test_a_clock_a_little_behind_takes_nothing_of_the_debt(url: str, clock: ManualClock) -> None:
    limit, slow = Limit("calls", burst=3, interval_us=100_000), ManualClock()
    slow.set_by(-1.9)
    async with AsyncExitStack() as stack:
        right, behind = await opened(url, clock, stack), await opened(url, slow, stack)
        assert await allowed(right, limit, "a", 3)
        for tokens in (1, 0, -1, 1):
            await behind.spend(limit, "a", tokens)
        assert [await allowed(right, limit, "a") for _ in range(2)] == [True, False]


async def test_nothing_is_let_through(
    short_lock_waits: None, url: str, processes: Sequence[SharedBuckets]
) -> None:
    first = processes[0]
    assert await allowed(first, LIMITS[0], "a")
    async with connected(url) as other, other.transaction():
        await other.execute("SELECT FROM buckets FOR UPDATE")
        with pytest.raises(UnavailableError, match="holds a lock"):
            await first.spend(LIMITS[0], "a", 1)
    assert await allowed(first, LIMITS[0], "a")

    async def is_back() -> bool:
        try:
            return await allowed(first, LIMITS[0], "a")
        except UnavailableError:
            return False

    assert first._link is not None
    first._link.drop()
    with pytest.raises(UnavailableError):
        await first.spend(LIMITS[0], "a", 1)
    await eventually(is_back)


@pytest.fixture(scope="module")
def alone(postgres: PostgresServer) -> Iterator[tuple[BackgroundLoop, SharedBuckets, ManualClock]]:
    """One process for many examples."""
    loop, stack, clock = BackgroundLoop(), AsyncExitStack(), ManualClock()
    url = loop.run(postgres.database("bridge"))
    yield loop, loop.run(opened(url, clock, stack)), clock
    loop.run(stack.aclose())
    loop.stop()


KEYS = count()
MOVES_US = st.one_of(st.just(0), st.integers(0, 30_000_000), st.just(-HOUR_US))
STEPS = st.tuples(st.integers(-3, 45), MOVES_US, st.integers(0, 2))


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
