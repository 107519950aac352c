"""Token buckets on disk: those that are not full, and no others for long."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.signals import Signals
from bridge_server.storage.bucket_store import SqlBucketStore, saving
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase

A, B = ("sessions", "192.0.2.1"), ("requests", "192.0.2.1")


@pytest.fixture
async def database(tmp_path: Path, signals: Signals) -> AsyncIterator[SqliteDatabase]:
    file = tmp_path / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, signals)
    async with database.opened():
        yield database


async def test_what_was_saved_last_is_loaded(database: SqliteDatabase) -> None:
    await database.transaction(saving([(A, 1_000), (B, 2_000)]))
    await database.transaction(saving([(A, 5_000)]))

    loaded = await SqlBucketStore(database).load(now_us=0)

    assert sorted(loaded) == sorted([(A, 5_000), (B, 2_000)])


@pytest.mark.parametrize(("now_us", "expected"), [(999, [(A, 1_000)]), (1_000, []), (1_001, [])])
async def test_a_bucket_that_is_full_again_is_not_loaded(
    database: SqliteDatabase, now_us: int, expected: list[tuple[tuple[str, str], int]]
) -> None:
    await database.transaction(saving([(A, 1_000)]))

    assert await SqlBucketStore(database).load(now_us) == expected


async def test_buckets_that_are_full_again_are_swept_in_slices(database: SqliteDatabase) -> None:
    store = SqlBucketStore(database)
    full = [(("sessions", f"client {number}"), 5_000_000) for number in range(1_100)]
    await database.transaction(saving([*full, (A, 5_000_001)]))

    slices = [await store.sweep(now_ms=5_000) for _ in range(4)]

    assert sum(slices) == 1_100
    assert slices[-1] == 0
    assert max(slices) <= 500
    assert await store.load(now_us=0) == [(A, 5_000_001)]
