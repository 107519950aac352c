"""The read cache: it never outlives a change, and never grows beyond its capacity."""

import asyncio

import pytest

from bridge_server.kernel.cache import Cached, ReadCache
from bridge_server.kernel.signals import Key
from tests.support.rows import each_row

KEY: Key = ("session", "a")
OWNER: Key = ("statuses", "a")
OWNED: Key = ("status", "1")
FAR = 10**15


async def load(
    cache: ReadCache, key: Key, value: bytes | None, expires_at_ms: int = FAR, owner: Key | None = None
) -> Cached:
    """Load what a read finds at once."""

    async def read() -> Cached:
        return Cached(value, expires_at_ms, owner)

    return await cache.load(key, read, lambda found: found, 0, keeps_empty=True)


class SlowRead:
    """A read that takes until it is let go, and then finds a value or raises."""

    def __init__(self, owner: Key | None = None, error: Exception | None = None) -> None:
        self.found, self.error = Cached(b"old", FAR, owner), error
        self.gate = asyncio.Event()

    async def read(self) -> Cached:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.found

    async def begun(self, cache: ReadCache, key: Key = KEY, count: int = 1) -> list["asyncio.Task[Cached]"]:
        """So many callers that wait for it."""
        loads = [
            asyncio.create_task(cache.load(key, self.read, lambda found: found, 0, keeps_empty=True))
            for _ in range(count)
        ]
        await asyncio.sleep(0)
        return loads


@pytest.fixture
def cache() -> ReadCache:
    return ReadCache(10_000, ["statuses"])


async def test_a_loaded_value_is_cached_until_it_is_forgotten(cache: ReadCache) -> None:
    for value in (b"body", b"", None):
        loaded = await load(cache, KEY, value)
        assert loaded.value == value
        assert cache.get(KEY, now_ms=0) == loaded
        assert cache.get(("calls", "a"), now_ms=0) is None
        cache.forget(KEY)
        assert cache.get(KEY, now_ms=0) is None


@each_row(
    ("key", "owner", "touched", "is_cached"),
    [(KEY, None, KEY, False), (OWNED, OWNER, OWNER, False), (OWNED, OWNER, ("calls", "a"), True)],
)
async def test_a_value_touched_during_its_read_is_returned_but_not_cached(
    key: Key, owner: Key | None, touched: Key, is_cached: bool
) -> None:
    cache, slow = ReadCache(10_000, ["statuses"]), SlowRead(owner)
    (loading,) = await slow.begun(cache, key)
    cache.forget(touched)
    slow.gate.set()
    assert (await loading).value == b"old"
    assert (cache.get(key, now_ms=0) is not None) is is_cached


async def test_a_read_begun_after_the_touch_is_cached_whatever_an_earlier_finds(cache: ReadCache) -> None:
    slow = SlowRead()
    (earlier,) = await slow.begun(cache)
    cache.forget(KEY)
    new = await load(cache, KEY, b"new")
    slow.gate.set()
    await earlier
    assert cache.get(KEY, now_ms=0) == new


async def test_a_cancelled_reader_hands_the_read_to_the_next_caller(cache: ReadCache) -> None:
    (leaver,) = await SlowRead().begun(cache)
    stayers = [asyncio.create_task(load(cache, KEY, b"body")) for _ in range(3)]
    await asyncio.sleep(0)
    stayers.pop().cancel()
    leaver.cancel()
    assert [(await stayer).value for stayer in stayers] == [b"body"] * 2


async def test_a_failed_read_raises_for_every_caller_and_leaves_nothing_behind(cache: ReadCache) -> None:
    slow = SlowRead(error=LookupError("gone"))
    loads = await slow.begun(cache, count=3)
    slow.gate.set()
    outcomes = await asyncio.gather(*loads, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["gone"] * 3
    assert (await load(cache, KEY, b"body")).value == b"body"


async def test_an_entry_holds_until_it_expires(cache: ReadCache) -> None:
    loaded = await load(cache, KEY, b"body", expires_at_ms=1_000)
    assert [cache.get(KEY, now_ms) for now_ms in (999, 1_000, 1_001)] == [loaded, None, None]


async def test_the_value_that_was_not_read_for_longest_is_evicted_and_a_huge_one_evicts_no_other() -> None:
    cache = ReadCache(3 * Cached(b"x" * 100, FAR).size_bytes)

    def cached() -> list[str]:
        return [name for name in "abcd" if cache.get(("session", name), now_ms=0)]

    for name in "abc":
        await load(cache, ("session", name), b"x" * 100)
    cache.get(("session", "a"), now_ms=0)
    await load(cache, ("session", "d"), b"x" * 100)
    assert cached() == ["a", "c", "d"]
    assert (await load(cache, KEY, b"x" * 2_000)).value == b"x" * 2_000
    assert cached() == ["c", "d"]


async def test_a_touched_owner_drops_its_own_values_only(cache: ReadCache) -> None:
    for number, owner in ((1, OWNER), (2, OWNER), (3, ("statuses", "b"))):
        await load(cache, ("status", str(number)), b"body", owner=owner)
    await load(cache, KEY, b"body")
    cache.forget(OWNER)
    known = [key for key in (OWNED, ("status", "2"), ("status", "3"), KEY) if cache.get(key, now_ms=0)]
    assert known == [("status", "3"), KEY]
