"""The commits of the operator's commands, as the numbers tell that each process keeps of its own.

Other servers announce what they change. Their commits are not among these: each of them would have every
server look through its outbox, which commits too.
"""

from bridge_server.storage.database import scalar
from bridge_server.storage.postgres.database import PostgresDatabase

# A command has no URL. A server has none for the first moments: what it commits then counts as well.
_WRITTEN = "SELECT coalesce(sum(written), 0)::bigint FROM processes WHERE url IS NULL AND number <> ?"


class OutsideCommits:
    """Compares what commands have committed with what they had the last time."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._seen: int | None = None

    async def have_come(self) -> bool:
        """Whether a command has committed something since this was last asked."""
        seen, self._seen = self._seen, await self._written()
        return seen is not None and seen != self._seen

    async def _written(self) -> int:
        return scalar(int, await self._database.read(_WRITTEN, (self._database.number,)))
