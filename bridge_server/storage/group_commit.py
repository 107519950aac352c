"""Group commit: the transactions that arrive while a commit is under way go into the next one.

A caller resumes when its transaction is on disk. A failed transaction harms no other.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import aiosqlite
import structlog

from bridge_server.kernel.events import Events
from bridge_server.storage.batch import Job, commit_batch
from bridge_server.storage.connection import run
from bridge_server.storage.database import Transaction
from bridge_server.storage.failures import passing_failure, unavailable
from bridge_server.storage.presence import Presence
from bridge_server.storage.size_limit import SizeLimit

log = structlog.get_logger()

_BATCH_LIMIT = 256

# When many share a commit, the clients just answered have this long to come back with their next
# write: without it they would fall into two groups that take turns, each paying for commits half full.
_SIBLINGS = 8
_LINGER_SECONDS = 0.003

CommitHook: TypeAlias = Callable[[], Callable[[], Transaction[Any]] | None]
"""Asked before every commit for a transaction of its own to share it."""


class GroupCommit:
    """Runs transactions on the one connection that writes."""

    def __init__(self, events: Events, waiting_limit: int, size_limit: SizeLimit, presence: Presence) -> None:
        self._connection: aiosqlite.Connection | None = None
        self._events = events
        self._waiting_limit = waiting_limit
        self._size_limit = size_limit
        self._presence = presence
        self._waiting: list[Job] = []
        self._hooks: list[CommitHook] = []
        self._drain: asyncio.Task[None] | None = None
        self._siblings = 0
        self._gathered = asyncio.Event()
        self.commits = 0
        self.transactions = 0
        self.last_commit_failed = False
        self._before_commit: Callable[[], None] | None = None

    def order_failures(self, before_commit: Callable[[], None]) -> None:
        """Call this before each commit, which fails with what it raises."""
        self._before_commit = before_commit

    def use(self, connection: aiosqlite.Connection) -> None:
        """Write on this connection from now on."""
        self._connection = connection

    def submit(self, begin: Callable[[], Transaction[Any]]) -> asyncio.Future[Any]:
        """Queue a transaction. It runs even if the returned future is cancelled."""
        if len(self._waiting) >= self._waiting_limit:
            raise unavailable("too many writes are waiting for the disk")
        job = Job(begin, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if len(self._waiting) == self._siblings:
            self._gathered.set()
        if self._drain is None:
            self._drain = asyncio.create_task(self._commit_until_idle())
        return job.done

    def add_commit_hook(self, hook: CommitHook) -> None:
        """Call `hook` before every commit. The transaction that it returns becomes part of the commit."""
        self._hooks.append(hook)

    @property
    def is_busy(self) -> bool:
        """Whether a transaction is under way."""
        return self._drain is not None

    async def finish(self) -> None:
        """Wait until everything queued is committed."""
        while self._drain is not None:
            await asyncio.wait([self._drain])

    async def _commit_until_idle(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_BATCH_LIMIT]
                del self._waiting[:_BATCH_LIMIT]
                await self._commit([*self._hook_jobs(), *batch])
                if len(batch) >= _SIBLINGS:
                    await self._linger_for(len(batch) + len(self._waiting))
        finally:
            self._drain = None

    async def _linger_for(self, siblings: int) -> None:
        self._siblings = min(siblings, _BATCH_LIMIT)
        if len(self._waiting) >= self._siblings:
            return
        self._gathered.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._gathered.wait()

    def _hook_jobs(self) -> list[Job]:
        loop = asyncio.get_running_loop()
        jobs = []
        for hook in self._hooks:
            try:
                begin = hook()
            except Exception:  # the transactions that wait are not to suffer for it
                log.exception("commit_hook_failed")
                continue
            if begin is not None:
                jobs.append(Job(begin, loop.create_future()))
        return jobs

    async def _commit(self, batch: list[Job]) -> None:
        assert self._connection is not None
        try:
            if self._before_commit is not None:
                self._before_commit()
            await run(self._connection, lambda connection: commit_batch(connection, batch, self._size_limit))
            self._presence.require()  # a commit into a file that is gone is none
        except BaseException as error:  # every caller must have an answer
            self.last_commit_failed = True
            _fail(batch, error)
            if not isinstance(error, Exception):
                raise
            return
        self.last_commit_failed = False
        self.commits += 1
        self.transactions += len(batch)
        for job in batch:
            self._settle(job)

    def _settle(self, job: Job) -> None:
        if job.error is None:
            for event in job.events:
                self._events.publish(event)
        if job.done.done():
            return
        if job.error is None:
            job.done.set_result(job.result)
        else:
            job.done.set_exception(job.error)
            job.done.exception()  # a caller that was cancelled never asks


def _fail(batch: list[Job], error: BaseException) -> None:
    reason = passing_failure(error)
    answer = unavailable(reason) if reason is not None else error
    for job in batch:
        if not job.done.done():
            job.done.set_exception(answer)
            job.done.exception()
