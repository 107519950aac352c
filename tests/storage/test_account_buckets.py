"""The accounts' buckets in SQL, against a plain model: a number of tokens that refills as time goes by."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.events import Events
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.models import FailureReason, Failures, Notification, NotifyRequest, Outdated
from bridge_server.notify.store import MissedLimits, NotifyStore, SendingLimits
from bridge_server.projects.models import Project, ProjectId, Publisher, TypeId
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase

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


async def send(store: NotifyStore, limit: Limit, keys: Sequence[str], now_us: int) -> Failures:
    content = Notification(TypeId("news"), "Title", "Body", None)
    request = NotifyRequest(content, None, {key: key for key in keys})
    return await store.send(
        PUBLISHER, request, SendingLimits(limit, MissedLimits(0)), now_us, lambda _, __: []
    )


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


@given(st.lists(st.tuples(limits, steps_anywhere), min_size=1, max_size=4))
def test_limits_and_waiting_times_of_accounts_agree_with_the_model(runs: list[tuple[Limit, Steps]]) -> None:
    asyncio.run(_compare(runs, is_swept=False))


@given(st.lists(st.tuples(limits, steps_forwards), min_size=1, max_size=4))
def test_to_forget_full_buckets_changes_nothing(runs: list[tuple[Limit, Steps]]) -> None:
    asyncio.run(_compare(runs, is_swept=True))


async def _compare(runs: list[tuple[Limit, Steps]], *, is_swept: bool) -> None:
    with TemporaryDirectory() as directory:
        async with opened_store(Path(directory)) as (database, store):
            for limit, steps in runs:
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
