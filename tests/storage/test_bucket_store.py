"""Token buckets on disk: those that are not full, and no others for long."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Database
from bridge_server.web.limits import BucketStore, SavedBucket, save
from tests.support.rows import each_row
from tests.support.schema_databases import ENGINES, schema_database


def bucket(name: str, full_at_us: int, key: str = "192.0.2.1") -> SavedBucket:
    return SavedBucket(name, key, full_at_us, interval_us=10)


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path, events: Events) -> AsyncIterator[Database]:
    async with schema_database(request, tmp_path, events) as database:
        yield database


async def test_the_last_saved_state_is_loaded(database: Database) -> None:
    await database.transaction(partial(save, [bucket("sessions", 1_000), bucket("requests", 2_000)]))
    await database.transaction(partial(save, [bucket("sessions", 5_000)]))

    loaded = await BucketStore(database).load(now_us=0)

    assert sorted(loaded) == [bucket("requests", 2_000), bucket("sessions", 5_000)]


@each_row(("now_us", "is_loaded"), [(999, True), (1_000, False), (1_001, False)])
async def test_a_bucket_that_is_full_again_is_not_loaded(
    database: Database, now_us: int, is_loaded: bool
) -> None:
    saved = bucket("sessions", 1_000)
    await database.transaction(partial(save, [saved]))

    assert await BucketStore(database).load(now_us) == ([saved] if is_loaded else [])


async def test_buckets_that_are_full_again_are_swept_in_slices(database: Database) -> None:
    store = BucketStore(database)
    full = [bucket("sessions", 5_000_000, key=f"client {number}") for number in range(1_100)]
    left = bucket("sessions", 5_000_001)
    await database.transaction(partial(save, [*full, left]))

    slices = [await store.sweep(now_ms=5_000) for _ in range(4)]

    assert sum(slices) == 1_100
    assert slices[-1] == 0
    assert max(slices) <= 500
    assert await store.load(now_us=0) == [left]
