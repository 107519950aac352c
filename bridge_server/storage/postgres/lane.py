"""A lane: one connection that writes, and the transactions that share its commits.

The transactions that arrive while a commit is under way go into the next one. A failed transaction harms no
other: a batch that cannot be committed is run again in halves, until the one at fault is alone.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import structlog

from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.storage.database import Transaction, Turns
from bridge_server.storage.postgres.commit_attempts import CommitAttempts, is_counted
from bridge_server.storage.postgres.connection import KeptConnection
from bridge_server.storage.postgres.failures import (
    OUT_OF_LOCKS,
    LostConnectionError,
    OutcomeUnknownError,
    is_retried,
    passing_failure,
    sqlstate,
    unavailable,
)
from bridge_server.storage.postgres.queue import BATCH_LIMIT, Waiting
from bridge_server.storage.postgres.rounds import LaneJob, UncleanError

log = structlog.get_logger()

_SIBLINGS = 8
_LINGER_SECONDS = 0.003
"""The clients just answered are given this long to come back: else they would fall into two groups."""
_ATTEMPTS = 3
_LONGEST_PAUSE_SECONDS = 0.02

CommitListener: TypeAlias = Callable[[int, int, Sequence[DomainEvent]], None]
"""Called with a lane, its count of commits and the events of the commit, once these are published."""


class CommitLane:
    """Runs transactions on one connection."""

    def __init__(
        self,
        lane: int,
        link: KeptConnection,
        events: Events,
        listeners: Sequence[CommitListener],
        waiting_limit: int,
    ) -> None:
        self._lane = lane
        self._link = link
        self._events = events
        self._listeners = listeners
        self._waiting_limit = waiting_limit
        self._waiting = Waiting()
        self._drain: asyncio.Task[None] | None = None
        self._siblings = 0
        self._gathered = asyncio.Event()
        self._attempts = CommitAttempts(lane, link)
        self._is_short_of_locks = False
        self.transactions = 0
        self.runs_again = 0
        self.last_commit_failed = False

    def use(self, process: int) -> None:
        """Count commits in the row of this process."""
        self._attempts.use(process)

    @property
    def commits(self) -> int:
        """The commits since the start."""
        return self._attempts.commits

    @property
    def is_busy(self) -> bool:
        """Whether a transaction is under way."""
        return self._drain is not None

    def submit(self, begin: Callable[[], Transaction[Any]], turns: Turns) -> asyncio.Future[Any]:
        """Queue a transaction. It runs even if the returned future is cancelled."""
        if self._drain is None and not self._link.is_open:
            raise _not_now(LostConnectionError())
        waiting = self._waiting.jobs
        if len(waiting) >= self._waiting_limit:
            raise unavailable("too many writes are waiting for the database")
        job = LaneJob(begin, asyncio.get_running_loop().create_future(), turns)
        waiting.append(job)
        if len(waiting) == self._siblings:
            self._gathered.set()
        if self._drain is None:
            self._drain = asyncio.create_task(self._commit_until_idle())
        return job.done

    async def finish(self) -> None:
        """Wait until everything queued is committed."""
        while self._drain is not None:
            await asyncio.wait([self._drain])

    async def _commit_until_idle(self) -> None:
        batch: list[LaneJob] = []
        try:
            while self._waiting.jobs:
                batch = self._waiting.take()
                await self._commit(batch)
                if len(batch) >= _SIBLINGS:
                    await self._linger_for(len(batch) + len(self._waiting.jobs))
        except BaseException as error:  # every caller must have an answer
            _fail([*batch, *self._waiting.take_all()], error)
            raise
        finally:
            self._drain = None

    async def _linger_for(self, siblings: int) -> None:
        self._siblings = min(siblings, BATCH_LIMIT)
        if len(self._waiting.jobs) >= self._siblings:
            return
        self._gathered.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._gathered.wait()

    async def _commit(self, batch: list[LaneJob]) -> None:
        """Commit the batch, or the parts of it that can be, in their order."""
        parts = [batch]
        while parts:
            part = parts.pop()
            error = await self._attempts.attempt(part)
            if error is None:
                self._settle(part)
                continue
            is_whole = passing_failure(error) is not None and not self._is_locks(error)
            if len(part) > 1 and not is_whole:
                self.runs_again += 1
                half = len(part) // 2
                parts += [part[half:], part[:half]]
                continue
            if is_retried(error):
                error = await self._retried(part, error)
            if error is None:
                self._settle(part)
            else:
                self._refuse(part, error)

    async def _retried(self, part: list[LaneJob], error: Exception) -> Exception | None:
        """Run a job alone again, which may have lost a race; its last error."""
        last: Exception | None = error
        for _ in range(_ATTEMPTS):
            self.runs_again += 1
            await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))  # noqa: S311 - no secret
            last = await self._attempts.attempt(part)
            if last is None or not is_retried(last):
                break
        return last

    def _settle(self, jobs: list[LaneJob]) -> None:
        """Publish the events of the jobs and answer their callers."""
        self.last_commit_failed = False
        self.transactions += len(jobs)
        events: list[DomainEvent] = []
        for job in jobs:
            if job.error is None:
                events += job.events
                for event in job.events:
                    self._events.publish(event)
            _answer(job)
        if not is_counted(jobs):
            return
        for listener in self._listeners:
            try:
                listener(self._lane, self._attempts.written, events)
            except Exception:
                log.exception("commit_listener_failed")

    def _refuse(self, jobs: list[LaneJob], error: Exception) -> None:
        if passing_failure(error) is not None or isinstance(error, OutcomeUnknownError):
            self.last_commit_failed = True
        if isinstance(error, UncleanError):
            jobs[0].error = error.cause
            _answer(jobs[0])
        else:
            _fail(jobs, error)

    def _is_locks(self, error: Exception) -> bool:
        if sqlstate(error) != OUT_OF_LOCKS:
            return False
        if not self._is_short_of_locks:
            self._is_short_of_locks = True
            log.warning("database_out_of_locks", advice="raise max_locks_per_transaction of the server")
        return True


def _answer(job: LaneJob) -> None:
    if job.done.done():
        return
    if job.error is None:
        job.done.set_result(job.result)
    else:
        job.done.set_exception(job.error)
        job.done.exception()  # a caller that was cancelled never asks


def _not_now(error: BaseException) -> BaseException:
    reason = passing_failure(error)
    return unavailable(reason) if reason is not None else error


def _fail(jobs: list[LaneJob], error: BaseException) -> None:
    answer = _not_now(error)
    for job in jobs:
        if not job.done.done():
            job.done.set_exception(answer)
            job.done.exception()
