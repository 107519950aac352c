"""Tokens that processes take from a shared bucket at once: they let through no more than one bucket would.

White-box: a lease shows to clients only as a database that is asked less often.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from itertools import count
from typing import Any, TypeAlias

import pytest
from hypothesis import example as example_of
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.token_bucket import Limit, spend
from bridge_server.kit.fixtures.background_loop import BackgroundLoop
from bridge_server.storage.postgres.buckets import SharedBuckets
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.web import shared_limits
from bridge_server.web.limits import Charged, Cost, QuotaError
from bridge_server.web.shared_limits import SharedQuotas
from tests.support.clock import ManualClock
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.waiting import eventually, turns

pytestmark = needs_postgres

HOUR_US = 3_600_000_000
REQUESTS = Limit("requests", burst=100, interval_us=HOUR_US)
CALLS = Limit("calls", burst=3, interval_us=HOUR_US)
OWN = Limit("own-bytes", burst=1_000, interval_us=HOUR_US)
ALL = Limit("all-bytes", burst=1_500, interval_us=HOUR_US)


Processes: TypeAlias = list[SharedQuotas]


async def opened(url: str, clock: ManualClock, stack: AsyncExitStack, others: int = 1) -> SharedQuotas:
    database = PostgresDatabase(url, Events(), {})
    await stack.enter_async_context(database.opened())
    quotas = SharedQuotas(SharedBuckets(database.link, clock), clock, lambda: others)
    await stack.enter_async_context(quotas.running())
    return quotas


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database("bridge")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def unused_tokens_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that are not used are given back after a second, which a busy machine may need."""
    monkeypatch.setattr(shared_limits, "_LEASE_SECONDS", 3_600.0)


@pytest.fixture
async def processes(url: str, clock: ManualClock) -> AsyncIterator[Processes]:
    async with AsyncExitStack() as stack:
        yield [await opened(url, clock, stack) for _ in range(2)]


async def charged(quotas: SharedQuotas, *limits: Limit, key: str = "a") -> Charged:
    found = quotas.charge(key, limits)
    return found if found.later is None else await found.later


def bytes_of(size_bytes: int, key: str = "a") -> list[Cost]:
    """Bytes of a client, which are charged to it and to all."""
    return [Cost(key, OWN, size_bytes), Cost("all", ALL, size_bytes)]


async def left(url: str, limit: Limit, clock: ManualClock) -> int:
    async with connected(url) as wire:
        full_at_us = await wire.fetchval("SELECT full_at_us FROM buckets WHERE limit_name = $1", limit.name)
    return spend(limit, full_at_us, clock.now_us(), cost=0).remaining


async def test_a_process_asks_once_for_many(url: str, processes: Processes, clock: ManualClock) -> None:
    first = processes[0]
    one = await charged(first, REQUESTS)
    assert await left(url, REQUESTS, clock) == 98
    link = first._buckets._link
    assert link is not None
    link.drop()
    other = first.charge("a", (REQUESTS,))
    assert other.later is None, "it has a token that it had taken"
    assert [each.charges[0].spending.remaining for each in (one, other)] == [99, 98]
    for limit in (REQUESTS, CALLS):  # nothing else is let through without the database
        with pytest.raises(UnavailableError):
            await charged(first, limit)


async def test_unused_tokens_return(url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncExitStack() as stack:
        await charged(await opened(url, clock, stack), REQUESTS)
    assert await left(url, REQUESTS, clock) == 99
    monkeypatch.setattr(shared_limits, "_LEASE_SECONDS", 0.01)
    async with AsyncExitStack() as stack:
        await charged(await opened(url, clock, stack), REQUESTS)

        async def is_back() -> bool:
            return await left(url, REQUESTS, clock) == 98

        await eventually(is_back)


async def test_a_refusal_spends_no_other_limit(url: str, processes: Processes, clock: ManualClock) -> None:
    few = Limit("requests", 10, HOUR_US)
    passed = []
    for number, process in enumerate(processes * 4):
        with suppress(QuotaError):
            await charged(process, few, CALLS)
            passed.append(number)
    with pytest.raises(QuotaError) as refused:
        await charged(processes[0], few, CALLS)
    standing = [(each.limit.name, each.spending.remaining) for each in refused.value.charges]
    assert passed == [0, 1, 2]
    assert standing == [("requests", 7), ("calls", 0)]
    assert await left(url, few, clock) == 7


async def test_costs_are_charged_wholly_or_not(url: str, processes: Processes, clock: ManualClock) -> None:
    first, second = processes
    await first.charge_costs(bytes_of(990))
    with pytest.raises(QuotaError) as refused:
        await second.charge_costs(bytes_of(600, "b"))
    assert refused.value.charges[0].spending.remaining == 1_000
    assert refused.value.limit_name == "all-bytes"
    await second.charge_costs(bytes_of(500, "b"))
    await first.charge_costs(bytes_of(10))
    assert await left(url, ALL, clock) == 0


async def test_tokens_of_a_client_that_has_left_return(url: str, clock: ManualClock) -> None:
    async with AsyncExitStack() as stack:
        first = await opened(url, clock, stack)
        spent = 0
        for number in range(60):  # each leaves at another moment of its charge
            charging = asyncio.create_task(first.charge_costs([Cost("all", ALL, 20)]))
            await turns(number)
            charging.cancel()
            (outcome,) = await asyncio.gather(charging, return_exceptions=True)
            spent += 20 if outcome is None else 0
        await first.charge_costs([Cost("all", ALL, 20)])
    assert await left(url, ALL, clock) == 1_500 - spent - 20


async def test_work_done_empties_a_bucket(url: str, processes: Processes, clock: ManualClock) -> None:
    first, second = processes
    await first.charge_costs([Cost("a", OWN, 700)])
    await second.charge_costs([Cost("a", OWN, 100)])
    second.require_costs([Cost("a", OWN, 200)])
    with pytest.raises(QuotaError):
        second.require_costs([Cost("a", OWN, 201)])
    second.charge_what_is_left([Cost("a", OWN, 500)])
    await asyncio.gather(*second._work)
    assert await left(url, OWN, clock) == 0


async def test_what_one_holds_is_not_covered(url: str, processes: Processes, clock: ManualClock) -> None:
    first, second = processes
    own = [Cost("a", OWN, 600)]
    await first.hold(bytes_of(600))
    second.require_costs(own)  # it has not heard of it yet
    await second.hold(bytes_of(600))
    with pytest.raises(QuotaError):
        second.require_costs(own)
    second.require_costs([Cost("a", OWN, 400)])
    first.require_costs(own)
    first.charge_what_is_left(own)
    await asyncio.gather(*first._work)
    assert await left(url, OWN, clock) == 400


async def test_tokens_under_way_are_not_there(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    first, is_free, asked, cost = processes[0], asyncio.Event(), count(), [Cost("a", OWN, 400)]
    spend_in_database = SharedBuckets.spend

    async def slow(*args: Any, **options: Any) -> Any:
        if next(asked) > 0:
            await is_free.wait()
        return await spend_in_database(*args, **options)

    monkeypatch.setattr(SharedBuckets, "spend", slow)
    for _ in range(2):
        first.charge_what_is_left(cost)
    await asyncio.wait(first._work, return_when=asyncio.FIRST_COMPLETED)

    with pytest.raises(QuotaError):
        first.require_costs(cost)
    is_free.set()
    await asyncio.gather(*first._work)
    with pytest.raises(QuotaError):
        first.require_costs(cost)


async def test_buckets_that_are_full_again_take_no_memory(processes: Processes, clock: ManualClock) -> None:
    first, limit = processes[0], Limit("requests", 3, 1_000_000)
    first._prune_above = 10
    for number in range(10):
        await charged(first, limit, key=str(number))
    clock.advance(3)
    await charged(first, limit, key="another")
    assert list(first._leases) == [("requests", "another")]


class Example:
    """Processes for many examples, with a clock of their own."""

    def __init__(self, postgres: PostgresServer) -> None:
        self.loop = BackgroundLoop()
        self.clock = ManualClock()
        self.stack = AsyncExitStack()
        self.processes = self.loop.run(self._opened(postgres))
        self.keys = count()

    async def _opened(self, postgres: PostgresServer) -> Processes:
        url = await postgres.database("bridge")
        return [await opened(url, self.clock, self.stack, others=2) for _ in range(3)]

    async def step(self, limit: Limit, key: str, process: int, tokens: int) -> bool:
        """Whether the charge was let through. Without tokens, the process gives its own back."""
        quotas = self.processes[process]
        if not tokens:
            quotas._return_those_before(float("inf"))
            await asyncio.gather(*quotas._work)
            return False
        try:
            await quotas.charge_costs([Cost(key, limit, tokens)])
        except QuotaError:
            return False
        return True


@pytest.fixture(scope="module")
def example(postgres: PostgresServer) -> Iterator[Example]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_limits, "_SHARE", 4)  # so that leases matter
        example = Example(postgres)
        yield example
        example.loop.run(example.stack.aclose())
        example.loop.stop()


def some_steps(
    tokens: list[int], later_us: list[int], least: int, most: int
) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Steps: a process, its tokens, and the time after them."""
    step = st.tuples(st.integers(0, 2), st.sampled_from(tokens), st.sampled_from(later_us))
    return st.lists(step, min_size=least, max_size=most)


@given(
    steps=some_steps(
        [0, 1, 1, 1, 2, 5, 18], [0, 0, 0, 0, 400_000, 1_000_000, 5_000_000, 30_000_000], least=5, most=40
    )
)
@example_of(steps=[(0, 1, 0), (1, 18, 30_000_000), (1, 2, 0), (0, 1, 0)])
@example_of(  # what the first gave back was below what the second holds
    steps=[(0, 1, 0), (1, 1, 0), (0, 0, 0), (2, 18, 7_000_000), (2, 1, 0), (2, 1, 0), (1, 1, 0), (1, 1, 0)],
)
def test_one_bucket_would_have_let_it_through(example: Example, steps: list[tuple[int, int, int]]) -> None:
    limit, key = Limit("some-bytes", 20, 1_000_000), str(next(example.keys))

    async def go() -> None:
        full_at_us = 0
        for process, tokens, later_us in steps:
            example.clock.advance(later_us / 1_000_000)
            if await example.step(limit, key, process, tokens):
                one = spend(limit, full_at_us, example.clock.now_us(), tokens)
                assert one.allowed
                full_at_us = one.full_at_us

    example.loop.run(go())


@given(steps=some_steps([0, 1, 1, 1, 2], [0, 1, 300_000, 2_000_000], least=1, most=30))
@example_of(steps=[(0, 1, 1), (1, 1, 1), (2, 1, 1)])
def test_of_a_slow_bucket_every_token_is_had(example: Example, steps: list[tuple[int, int, int]]) -> None:
    limit, key = Limit("some-bytes", 20, HOUR_US), str(next(example.keys))

    async def had() -> int:
        found = 0
        for process, tokens, later_us in [*steps, (0, 0, 1), (1, 0, 1), (2, 0, 1), *[(0, 1, 0)] * 21]:
            found += tokens * await example.step(limit, key, process, tokens)
            example.clock.advance(later_us / 1_000_000)
        return found

    assert example.loop.run(had()) == 20
