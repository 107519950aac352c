"""Token buckets that two processes spend from: exact, by the arithmetic of the buckets in memory.

A process is a database of its own in the loop of the test.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.token_bucket import Limit, Spending, reckoned_anew, spend
from bridge_server.kit.fixtures.background_loop import BackgroundLoop
from bridge_server.storage.postgres.buckets import SharedBuckets
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import migrate
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres

pytestmark = needs_postgres

HOUR_US = 3_600_000_000
LIMITS = (
    Limit("calls", burst=5, interval_us=1_000_000),
    Limit("calls", burst=3, interval_us=7_000_000),
    Limit("calls", burst=40, interval_us=333_333),
)
BYTES = (Limit("bytes", 5_000, 11_000, 1_024), Limit("bytes", 1_000_000, 3_600, 1_024))


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database("bridge", migrate)


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


async def test_two_processes_spend_exactly_what_there_is(processes: Sequence[SharedBuckets]) -> None:
    limit, random = Limit("calls", burst=50, interval_us=HOUR_US), Random(1)
    keys = [f"{number}" for number in range(500)] * 30
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

    assert (len(outcomes), sum(outcomes)) == (30_000, 25_000)


async def test_charges_of_one_moment_are_refused_from_the_first_too_many(
    processes: Sequence[SharedBuckets],
) -> None:
    limit = Limit("calls", burst=10, interval_us=HOUR_US)

    spent = await asyncio.gather(*(processes[0].spend(limit, "a", 1) for _ in range(100)))

    found = [(each.spending.allowed, each.spending.remaining) for each in spent]
    assert found == [(True, left) for left in range(9, -1, -1)] + [(False, 0)] * 90
    assert spent[-1].spending.retry_after_us == HOUR_US


async def test_a_large_charge_that_is_refused_leaves_room_for_small_ones(
    processes: Sequence[SharedBuckets],
) -> None:
    limit = Limit("bytes", burst=10, interval_us=HOUR_US)

    asked = [4, 7, 9, 5, 1, 2]
    outcomes = await asyncio.gather(*(allowed(processes[0], limit, "a", tokens) for tokens in asked))

    assert outcomes == [True, False, False, True, True, False]


async def test_a_charge_of_more_than_a_whole_bucket_is_refused(processes: Sequence[SharedBuckets]) -> None:
    limit = Limit("calls", burst=2, interval_us=HOUR_US)

    assert not await allowed(processes[0], limit, "a", 3)
    assert await allowed(processes[1], limit, "a", 2)


async def test_returned_tokens_can_be_spent_by_another_process(processes: Sequence[SharedBuckets]) -> None:
    first, second = processes
    limit = Limit("calls", burst=2, interval_us=HOUR_US)
    assert await allowed(first, limit, "a", 2)
    assert not await allowed(second, limit, "a")

    await first.spend(limit, "a", -1)

    assert [await allowed(second, limit, "a"), await allowed(second, limit, "a")] == [True, False]


async def test_extra_tokens_are_had_only_if_there_are_as_many(processes: Sequence[SharedBuckets]) -> None:
    limit = Limit("calls", burst=10, interval_us=HOUR_US)

    asked = [await processes[0].spend(limit, "a", 1, extra=3) for _ in range(5)]

    found = [(each.spending.allowed, each.extra, each.spending.remaining) for each in asked]
    assert found == [(True, 3, 6), (True, 3, 2), (True, 0, 1), (True, 0, 0), (False, 0, 0)]


async def test_extra_tokens_are_one_callers_of_a_moment(processes: Sequence[SharedBuckets]) -> None:
    limit = Limit("calls", burst=100, interval_us=HOUR_US)

    spent = await asyncio.gather(*(processes[0].spend(limit, "a", 1, extra=5) for _ in range(10)))

    assert [each.extra for each in spent] == [0] * 9 + [5]
    assert spent[-1].spending.remaining == 85


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


async def test_a_lock_in_the_database_is_no_reason_to_let_through(
    url: str, processes: Sequence[SharedBuckets]
) -> None:
    assert await allowed(processes[0], LIMITS[0], "a")
    async with connected(url) as other, other.transaction():
        await other.execute("SELECT FROM buckets FOR UPDATE")

        with pytest.raises(UnavailableError, match="holds a lock"):
            await processes[0].spend(LIMITS[0], "a", 1)

    assert await allowed(processes[0], LIMITS[0], "a")


@dataclass
class Model:
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
        return await opened(await postgres.database("bridge", migrate), clock, stack)

    yield loop, loop.run(start()), clock
    loop.run(stack.aclose())
    loop.stop()


KEYS = count()
STEPS = st.tuples(
    st.integers(-3, 45),
    st.one_of(st.just(0), st.integers(0, 30_000_000), st.just(-HOUR_US)),
    st.integers(0, 2),
)


@given(steps=st.lists(STEPS, max_size=25), is_bytes=st.booleans())
def test_the_arithmetic_is_that_of_the_buckets_in_memory(
    alone: tuple[BackgroundLoop, SharedBuckets, ManualClock],
    steps: list[tuple[int, int, int]],
    is_bytes: bool,
) -> None:
    """Charges of any cost, by a clock that moves on or is set back, and by limits that change."""
    loop, buckets, clock = alone
    key, model = str(next(KEYS)), Model()
    for tokens, moved_us, which in steps:
        clock.advance(moved_us / 1_000_000)
        limit = BYTES[which % 2] if is_bytes else LIMITS[which]
        cost = tokens * (997 if is_bytes else 1)
        expected = model.spend(limit, cost, clock.now_us())
        assert loop.run(buckets.spend(limit, key, cost)).spending == expected
