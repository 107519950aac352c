"""Token buckets that outlive the process."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent
from bridge_server.storage.database import Database, Statement, Transaction, scalar, transaction
from bridge_server.storage.turns import sweeping
from bridge_server.web.charges import SavedBucket

_SAVE = """
INSERT INTO buckets (limit_name, key, full_at_us, interval_us) VALUES (?, ?, ?, ?)
ON CONFLICT (limit_name, key) DO UPDATE
SET full_at_us = excluded.full_at_us, interval_us = excluded.interval_us
"""
_LOAD = "SELECT limit_name, key, full_at_us, interval_us FROM buckets WHERE full_at_us > ?"
SWEEP = """
DELETE FROM buckets WHERE (limit_name, key) IN
    (SELECT limit_name, key FROM buckets WHERE full_at_us <= ? LIMIT ?)
"""

_SWEEP_SLICE = 500


@dataclass(frozen=True, slots=True)
class BucketsSaved(DomainEvent):
    """The buckets that `Quotas.take_unsaved` returned last are on disk."""


def save(buckets: list[SavedBucket]) -> Transaction[None]:
    """Store the buckets."""
    for bucket in buckets:
        yield Statement(_SAVE, bucket)
    if buckets:
        yield BucketsSaved()


class BucketStore:
    """Loads saved buckets, and deletes the full ones."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def load(self, now_us: int) -> list[SavedBucket]:
        """The buckets that are not full yet."""
        rows = await self.database.read(_LOAD, (now_us,))
        return [SavedBucket(*row) for row in rows]

    @transaction(turns=sweeping("buckets"))
    def sweep(self, now_ms: int) -> Transaction[int]:
        """Delete a slice of the buckets that are full again; returns how many."""
        return scalar(int, (yield Statement(SWEEP, (now_ms * 1000, _SWEEP_SLICE))))
