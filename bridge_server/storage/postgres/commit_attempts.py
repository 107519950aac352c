"""Attempts to commit transactions together in one transaction of the database, and their outcomes."""

import asyncio
from contextlib import suppress
from typing import Any

import structlog

from bridge_server.storage.postgres.commits import LaneCount
from bridge_server.storage.postgres.connection import KeptConnection
from bridge_server.storage.postgres.failures import (
    LostConnectionError,
    OutcomeUnknownError,
    ends_connection,
    is_stale,
    lost_or,
)
from bridge_server.storage.postgres.rounds import LaneJob, run_rounds
from bridge_server.storage.postgres.turns import beginning

log = structlog.get_logger()

_OUTCOME_SECONDS = 15.0
_OUTCOME_PAUSE_SECONDS = 0.1


class CommitAttempts:
    """Makes attempts on the connection of a lane, and counts the commits of the lane."""

    def __init__(self, lane: int, link: KeptConnection) -> None:
        self._lane = lane
        self._link = link
        self._count = LaneCount(0, lane)
        self.commits = 0

    def use(self, process: int) -> None:
        """Count commits in the row of this process."""
        self._count = LaneCount(process, self._lane)

    @property
    def written(self) -> int:
        """The count of commits that other processes may have to hear of."""
        return self._count.written

    async def attempt(self, jobs: list[LaneJob]) -> Exception | None:
        """Run the jobs in one transaction of the database; returns the error if nothing was stored."""
        try:
            wire = self._link.wire
        except LostConnectionError as error:
            return error
        statements = self._link.statements
        assert statements is not None
        try:
            await self._link.end_former(wire)
            await wire.execute(beginning(job.turns for job in jobs))
            await run_rounds(jobs, statements)
        except Exception as error:
            if is_stale(error):
                statements.forget()
            return await self._rolled_back(wire, error)
        return await self._end(wire, jobs)

    async def _end(self, wire: Any, jobs: list[LaneJob]) -> Exception | None:
        if not is_counted(jobs):
            return await self._ended(wire, "COMMIT")
        written = self._count.written + 1
        error = await self._ended(wire, self._count.commit_script(written))
        if error is not None and ends_connection(error):
            error = await self._outcome(written, error)
            self._count.written = written
        elif error is None:
            self._count.written = written
        return error

    async def _ended(self, wire: Any, script: str) -> Exception | None:
        try:
            await wire.execute(script)
        except Exception as error:
            return await self._rolled_back(wire, error)
        self.commits += 1
        return None

    async def _rolled_back(self, wire: Any, error: Exception) -> Exception:
        """The error, after the connection is fit for the next transaction or has been dropped."""
        found = lost_or(error, wire)
        if ends_connection(found):
            self._link.drop()
            return found
        try:
            await wire.execute("ROLLBACK")
        except Exception:
            self._link.drop()
        return found

    async def _outcome(self, written: int, error: Exception) -> Exception | None:
        """None if the commit whose answer was lost has succeeded; it never does later."""
        log.warning("database_commit_cut_off", lane=self._lane, reason=str(error))
        with suppress(TimeoutError):
            async with asyncio.timeout(_OUTCOME_SECONDS):
                while True:
                    with suppress(Exception):
                        wire = self._link.wire
                        await self._link.end_former(wire)
                        return error if await self._count.give_up(wire, written) else None
                    await asyncio.sleep(_OUTCOME_PAUSE_SECONDS)
        return OutcomeUnknownError()


def is_counted(jobs: list[LaneJob]) -> bool:
    """Whether other processes may have to hear of a commit of these jobs."""
    return any(job.has_changed or job.events for job in jobs)
