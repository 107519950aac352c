"""Token buckets that outlive the process."""

from collections.abc import Callable
from typing import cast

from bridge_server.storage.database import Announcement, Database, Statement, Transaction

_SAVE = """
INSERT INTO buckets (limit_name, key, full_at_us) VALUES (?, ?, ?)
ON CONFLICT (limit_name, key) DO UPDATE SET full_at_us = excluded.full_at_us
"""
_LOAD = "SELECT limit_name, key, full_at_us FROM buckets WHERE full_at_us > ?"
_SWEEP = """
DELETE FROM buckets WHERE (limit_name, key) IN
    (SELECT limit_name, key FROM buckets WHERE full_at_us <= ? LIMIT ?)
"""

_SWEEP_SLICE = 500

BUCKETS_SAVED = ("buckets", "saved")
"""Touched when buckets are on disk."""


def saving(buckets: list[tuple[tuple[str, str], int]]) -> Callable[[], Transaction[None]]:
    """A transaction that stores each bucket's moment of being full, in epoch microseconds."""

    def work() -> Transaction[None]:
        for bucket, full_at_us in buckets:
            yield Statement(_SAVE, (*bucket, full_at_us))
        if buckets:
            yield Announcement(BUCKETS_SAVED)

    return work


class SqlBucketStore:
    """Loads what was saved, and forgets what is full again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, now_us: int) -> list[tuple[tuple[str, str], int]]:
        """The buckets that are not full yet."""
        rows = await self._database.read(_LOAD, (now_us,))
        return [((cast(str, name), cast(str, key)), cast(int, full_at_us)) for name, key, full_at_us in rows]

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the buckets that are full again; returns how many."""

        def work() -> Transaction[int]:
            ((deleted,),) = yield Statement(_SWEEP, (now_ms * 1000, _SWEEP_SLICE))
            return cast(int, deleted)

        return await self._database.transaction(work)
