"""The table of the processes on one database, with the URLs at which they reach one another."""

from collections.abc import Sequence

from bridge_server.storage.database import Statement, Transaction, scalar
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.process import Process

_SILENT_AFTER_MS = 30_000
_FORGOTTEN_AFTER_MS = 600_000

# The commands of an operator have no URL: nobody can ask them for anything.
_LIST = """
SELECT processes.number, max(processes.url), max(version), max(abs(seen_at_ms)), max(seen_at_ms) > 0,
    max(started_at_ms), bool_or(roles.owner IS NOT NULL),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM processes LEFT JOIN roles ON roles.name = 'wallet' AND roles.owner = processes.number
WHERE processes.url IS NOT NULL GROUP BY processes.number ORDER BY processes.number
"""
_ANNOUNCE = "UPDATE processes SET url = ? WHERE number = ?"
_LOOK = """
SELECT (SELECT coalesce(max(oldest_program), 0) FROM schema_versions),
    (SELECT max(url) FROM processes WHERE number = ?)
"""
# The rows of a stopped process prove its last commits, as long as another may have missed their ring.
# They were seen by the clock of the database. Each commit writes the rows of this process again.
_SWEEP = """
DELETE FROM processes WHERE (number, lane) IN (
    SELECT number, lane FROM processes
    WHERE abs(seen_at_ms) < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - ? AND number <> ?
    ORDER BY number LIMIT ?
)
"""
_SLICE = 100


class Processes:
    """The table as one of the processes has it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    @property
    def own_number(self) -> int:
        """The number of this process."""
        return self._database.number

    async def all(self) -> Sequence[Process]:
        """Every server of the last ten minutes, oldest first."""
        return [_process(*row) for row in await self._database.read(_LIST)]

    async def look(self) -> tuple[int, str | None]:
        """The first migration that a program must know to use the database, and the URL of this process."""
        ((oldest_program, url),) = await self._database.read(_LOOK, (self.own_number,))
        return oldest_program, url

    async def announce(self, url: str) -> None:
        """Write the URL at which others reach this process."""

        def work() -> Transaction[None]:
            yield Statement(_ANNOUNCE, (url, self.own_number))

        await self._database.transaction(work)

    async def sweep(self, _: int) -> int:
        """Delete the rows of processes that were not seen for ten minutes by the clock of the database, which
        has written them; returns how many.
        """

        def work() -> Transaction[int]:
            swept = yield Statement(_SWEEP, (_FORGOTTEN_AFTER_MS, self.own_number, _SLICE))
            return scalar(int, swept)

        return await self._database.transaction(work)


def _process(
    number: int,
    url: str,
    version: str,
    seen_at_ms: int,
    is_on: bool,
    started_at_ms: int | None,
    holds_wallet: bool,
    now_ms: int,
) -> Process:
    ago_ms = max(0, now_ms - seen_at_ms)
    state = "stopped" if not is_on else "silent" if ago_ms > _SILENT_AFTER_MS else "running"
    return Process(number, url, version, state, started_at_ms, ago_ms / 1_000, holds_wallet)
