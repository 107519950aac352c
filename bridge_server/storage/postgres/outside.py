"""The commits of other processes, by the count that each process keeps of its own."""

from bridge_server.storage.database import scalar
from bridge_server.storage.postgres.database import PostgresDatabase

_WRITTEN = "SELECT coalesce(sum(written), 0)::bigint FROM processes WHERE number <> ?"


class OutsideCommits:
    """Compares the counts of other processes with their counts at the last look."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._seen: int | None = None

    async def have_come(self) -> bool:
        """Whether another process has committed something since this was last asked."""
        seen, self._seen = self._seen, await self._written()
        return seen is not None and seen != self._seen

    async def _written(self) -> int:
        return scalar(int, await self._database.read(_WRITTEN, (self._database.number,)))
