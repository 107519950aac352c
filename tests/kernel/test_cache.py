"""The read cache: it never outlives a change, and never grows beyond its capacity."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.cache import Cached, ReadCache
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Touched
from tests.support.rows import each_row

KEY: Key = ("session", "a")
FAR = 10**15


async def load_as_it_is(
    cache: ReadCache, key: Key, read: Callable[[], Awaitable[Cached]], *, keeps_empty: bool = True
) -> Cached:
    return await cache.load(key, read, lambda found: found, 0, keeps_empty=keeps_empty)


def reading(value: bytes | None, expires_at_ms: int = FAR) -> Callable[[], Awaitable[Cached]]:
    """A read that finds this value."""

    async def read() -> Cached:
        return Cached(value, expires_at_ms)

    return read


@each_row("value", [b"body", b"", None])
async def test_a_loaded_value_is_cached(value: bytes | None) -> None:
    cache = ReadCache(10_000)

    loaded = await load_as_it_is(cache, KEY, reading(value))

    assert loaded.value == value
    assert cache.get(KEY, now_ms=0) == loaded


async def test_a_key_that_was_not_loaded_has_no_value() -> None:
    cache = ReadCache(10_000)
    await load_as_it_is(cache, KEY, reading(b"body"))

    assert cache.get(("calls", "a"), now_ms=0) is None


async def test_a_forgotten_key_has_no_value() -> None:
    cache = ReadCache(10_000)
    await load_as_it_is(cache, KEY, reading(b"body"))

    cache.forget(KEY)

    assert cache.get(KEY, now_ms=0) is None


async def test_a_change_in_another_process_is_forgotten_and_after_a_gap_everything() -> None:
    cache, events, other = ReadCache(10_000), Events(), ("session", "b")
    cache.subscribe_to(events)
    for key in (KEY, other):
        await load_as_it_is(cache, key, reading(b"body"))

    events.hear(Touched(KEY))
    assert cache.get(KEY, now_ms=0) is None
    assert cache.get(other, now_ms=0) is not None

    events.hear_everything()
    assert cache.get(other, now_ms=0) is None


async def test_a_value_touched_during_its_read_is_returned_but_not_cached() -> None:
    cache = ReadCache(10_000)
    gate = asyncio.Event()

    async def slow_read() -> Cached:
        await gate.wait()
        return Cached(b"old", FAR)

    load = asyncio.create_task(load_as_it_is(cache, KEY, slow_read))
    await asyncio.sleep(0)
    cache.forget(KEY)
    gate.set()

    assert (await load).value == b"old"
    assert cache.get(KEY, now_ms=0) is None


async def test_a_read_begun_after_the_touch_is_cached_whatever_an_earlier_read_returns() -> None:
    cache = ReadCache(10_000)
    gate = asyncio.Event()

    async def slow_read() -> Cached:
        await gate.wait()
        return Cached(b"old", FAR)

    earlier = asyncio.create_task(load_as_it_is(cache, KEY, slow_read))
    await asyncio.sleep(0)
    cache.forget(KEY)
    await load_as_it_is(cache, KEY, reading(b"new"))
    gate.set()
    await earlier

    remembered = cache.get(KEY, now_ms=0)
    assert remembered is not None
    assert remembered.value == b"new"


async def test_overlapping_reads_are_one_read_and_share_its_bytes() -> None:
    cache = ReadCache(10_000)
    gate, reads = asyncio.Event(), 0

    async def slow_read() -> Cached:
        nonlocal reads
        reads += 1
        await gate.wait()
        return Cached(b"x" * 1_000, FAR)

    loads = [asyncio.create_task(load_as_it_is(cache, KEY, slow_read)) for _ in range(10)]
    await asyncio.sleep(0)
    gate.set()
    entries = await asyncio.gather(*loads)

    assert reads == 1
    assert len({id(entry.value) for entry in entries}) == 1


async def test_a_cancelled_reader_hands_the_read_to_the_next_caller() -> None:
    cache = ReadCache(10_000)

    async def endless_read() -> Cached:
        await asyncio.Event().wait()
        raise AssertionError

    leaver = asyncio.create_task(load_as_it_is(cache, KEY, endless_read))
    await asyncio.sleep(0)
    stayers = [asyncio.create_task(load_as_it_is(cache, KEY, reading(b"body"))) for _ in range(3)]
    await asyncio.sleep(0)
    stayers.pop().cancel()
    leaver.cancel()

    assert [(await stayer).value for stayer in stayers] == [b"body"] * 2


async def test_a_failed_read_raises_for_every_caller_that_waits_for_it() -> None:
    cache = ReadCache(10_000)
    gate = asyncio.Event()

    async def failing() -> Cached:
        await gate.wait()
        raise LookupError("gone")

    loads = [asyncio.create_task(load_as_it_is(cache, KEY, failing)) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set()

    outcomes = await asyncio.gather(*loads, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["gone"] * 3


@each_row(("value", "is_known"), [(b"body", True), (None, False)])
async def test_a_glance_remembers_only_what_it_finds(value: bytes | None, is_known: bool) -> None:
    cache = ReadCache(10_000)

    await load_as_it_is(cache, KEY, reading(value), keeps_empty=False)

    assert (cache.get(KEY, now_ms=0) is not None) is is_known


async def test_a_read_that_fails_leaves_nothing_behind() -> None:
    cache = ReadCache(10_000)

    async def failing() -> Cached:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await load_as_it_is(cache, KEY, failing)

    assert cache.get(KEY, now_ms=0) is None
    assert not cache._loads


@each_row(("now_ms", "holds"), [(999, True), (1_000, False), (1_001, False)])
async def test_an_entry_holds_until_it_expires(now_ms: int, holds: bool) -> None:
    cache = ReadCache(10_000)
    await load_as_it_is(cache, KEY, reading(b"body", expires_at_ms=1_000))

    assert (cache.get(KEY, now_ms) is not None) is holds


async def test_the_value_that_was_not_read_for_longest_is_evicted() -> None:
    entry_bytes = Cached(b"x" * 100, FAR).size_bytes
    cache = ReadCache(3 * entry_bytes)
    for name in "abc":
        await load_as_it_is(cache, ("session", name), reading(b"x" * 100))
    cache.get(("session", "a"), now_ms=0)

    await load_as_it_is(cache, ("session", "d"), reading(b"x" * 100))

    known = [name for name in "abcd" if cache.get(("session", name), now_ms=0)]
    assert known == ["a", "c", "d"]


async def test_a_value_larger_than_the_whole_capacity_is_returned_but_not_cached() -> None:
    cache = ReadCache(1_000)

    loaded = await load_as_it_is(cache, KEY, reading(b"x" * 2_000))

    assert loaded.value == b"x" * 2_000
    assert cache.get(KEY, now_ms=0) is None


OWNER: Key = ("statuses", "a")
OWNED: Key = ("status", "1")


def owned_reading(owner: Key = OWNER, value: bytes = b"body") -> Callable[[], Awaitable[Cached]]:
    """A read that finds something of that owner's."""

    async def read() -> Cached:
        return Cached(value, FAR, owner)

    return read


async def test_a_touched_owner_drops_its_own_values_only() -> None:
    cache = ReadCache(10_000, ["statuses"])
    await load_as_it_is(cache, OWNED, owned_reading())
    await load_as_it_is(cache, ("status", "2"), owned_reading())
    await load_as_it_is(cache, ("status", "3"), owned_reading(("statuses", "b")))
    await load_as_it_is(cache, KEY, reading(b"body"))

    cache.forget(OWNER)

    known = [key for key in (OWNED, ("status", "2"), ("status", "3"), KEY) if cache.get(key, now_ms=0)]
    assert known == [("status", "3"), KEY]
    assert list(cache._owned) == [("statuses", "b")]


@each_row(("touched", "remembered"), [(OWNER, False), (("calls", "a"), True)])
async def test_a_value_whose_owner_was_touched_during_the_read_is_not_cached(
    touched: Key, remembered: bool
) -> None:
    cache = ReadCache(10_000, ["statuses"])
    gate = asyncio.Event()

    async def slow_read() -> Cached:
        await gate.wait()
        return Cached(b"old", FAR, OWNER)

    load = asyncio.create_task(load_as_it_is(cache, OWNED, slow_read))
    await asyncio.sleep(0)
    cache.forget(touched)
    gate.set()

    assert (await load).value == b"old"
    assert (cache.get(OWNED, now_ms=0) is not None) is remembered


async def test_an_owner_holds_no_values_that_were_forgotten_or_evicted() -> None:
    cache = ReadCache(2 * Cached(b"body", FAR, OWNER).size_bytes, ["statuses"])
    for name in "123":
        await load_as_it_is(cache, ("status", name), owned_reading())
    cache.forget(("status", "2"))

    assert cache._owned == {OWNER: {("status", "3")}}
    cache.forget(("status", "3"))
    assert cache._owned == {}


names = st.sampled_from("abcdef")


@given(st.lists(st.tuples(names, st.integers(-1, 900)), max_size=60))
def test_the_size_is_the_sum_of_the_cached_values_and_within_the_capacity(
    actions: list[tuple[str, int]],
) -> None:
    cache = ReadCache(2_000)

    async def act() -> None:
        for name, size in actions:
            if size < 0:
                cache.forget(("session", name))
            else:
                await load_as_it_is(cache, ("session", name), reading(b"x" * size))

    asyncio.run(act())

    assert cache._size_bytes == sum(entry.size_bytes for entry in cache._entries.values())
    assert cache._size_bytes <= 2_000
