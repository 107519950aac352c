"""Group commit: transactions that arrive during a commit share the next. A failed one harms no other."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeAlias

import aiosqlite
import structlog

from bridge_server.kernel.background import settle
from bridge_server.kernel.errors import DatabaseFullError, UnavailableError
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.kernel.values import dataclass
from bridge_server.storage.connection import LogFile, Presence, passing_failure, run, unavailable
from bridge_server.storage.database import ForEach, Result, Statement, Transaction

_FULL_LOGGED_EVERY_SECONDS = 60.0  # a database near its limit crosses it many times
_BATCH_LIMIT = 256
# When many share a commit, the clients just answered have this long to come back with their next
# write: without it they would fall into two groups that take turns, each paying for commits half full.
SIBLINGS = 8
_LINGER_SECONDS = 0.003

log = structlog.get_logger()


class SizeLimit:
    """The limit on a database's size: a database over it refuses transactions that add data. Free pages
    inside the file do not count: they are reused before the file grows. Without a limit nothing is measured.
    """

    def __init__(self, limit_bytes: int | None, log_file: LogFile) -> None:
        self.limit_bytes = limit_bytes
        self._log_file = log_file
        self._page_bytes = 0
        self.used_bytes = 0
        self.is_full = False
        self._logged_at = -_FULL_LOGGED_EVERY_SECONDS

    def require(self) -> None:
        """Raise DatabaseFullError if the database is over its limit."""
        if self.is_full:
            raise self.error()

    def error(self) -> DatabaseFullError:
        """The error of a database over its limit."""
        assert self.limit_bytes is not None
        return DatabaseFullError(self.limit_bytes)

    def guarding(self, begin: Callable[[], Transaction[Result]]) -> Callable[[], Transaction[Result]]:
        """The transaction, which checks the limit again when it runs: others may have filled the database."""
        return partial(self._checked, begin)

    def _checked(self, begin: Callable[[], Transaction[Result]]) -> Transaction[Result]:
        self.require()
        return (yield from begin())

    def measure(self, connection: sqlite3.Connection) -> None:
        """Measure the bytes in use; called in the connection's thread."""
        if self.limit_bytes is None:
            return
        if not self._page_bytes:
            self._page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        free = connection.execute("PRAGMA freelist_count").fetchone()[0]
        self.used_bytes = (pages - free) * self._page_bytes + self._log_file.size_bytes
        was_full, self.is_full = self.is_full, self.used_bytes > self.limit_bytes
        if self.is_full and not was_full:
            self._log()

    def figures(self) -> dict[str, int]:
        """Gauges for the operator; none without a limit."""
        limit_bytes = self.limit_bytes
        return {} if limit_bytes is None else {"used_bytes": self.used_bytes, "limit_bytes": limit_bytes}

    def _log(self) -> None:
        now = monotonic()
        if now - self._logged_at < _FULL_LOGGED_EVERY_SECONDS:
            return
        self._logged_at = now
        log.warning(
            "database_full", used_bytes=self.used_bytes, database_limit=self.limit_bytes,
            advice="what would add to it is refused: raise database_limit, lower lifetimes such as call_ttl, "
            "or wait until something expires",
        )  # fmt: skip


@dataclass(slots=True)
class Job:
    """A transaction to commit, its outcome, and the future of its caller."""

    begin: Callable[[], Transaction[Any]]
    done: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    events: Sequence[DomainEvent] = ()


CommitHook: TypeAlias = Callable[[], Callable[[], Transaction[Any]] | None]
"""Asked before every commit for a transaction of its own to share it."""


class CommitQueue:
    """Transactions that wait for the next commit of one connection: the state that both engines need."""

    def __init__(self) -> None:
        self._drain: asyncio.Task[None] | None = None
        self._siblings = 0
        self._gathered = asyncio.Event()
        self.transactions = 0
        self.last_commit_failed = False

    @property
    def is_busy(self) -> bool:
        """Whether a transaction is under way."""
        return self._drain is not None

    async def finish(self) -> None:
        """Wait until everything queued is committed."""
        while self._drain is not None:
            await asyncio.wait([self._drain])

    async def _linger_for(self, siblings: int, waiting: int) -> None:
        """Wait a moment until so many transactions wait."""
        self._siblings = siblings
        if waiting >= siblings:
            return
        self._gathered.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._gathered.wait()


class GroupCommit(CommitQueue):
    """Runs transactions on the one connection that writes."""

    def __init__(self, events: Events, waiting_limit: int, size_limit: SizeLimit, presence: Presence) -> None:
        super().__init__()
        self._connection: aiosqlite.Connection | None = None
        self._events = events
        self._waiting_limit = waiting_limit
        self._size_limit = size_limit
        self._presence = presence
        self._waiting: list[Job] = []
        self._hooks: list[CommitHook] = []
        self.commits = 0
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
            return self.refused(unavailable("too many writes are waiting for the disk"))
        job = Job(begin, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if len(self._waiting) == self._siblings:
            self._gathered.set()
        if self._drain is None:
            self._drain = asyncio.create_task(self._commit_until_idle())
        return job.done

    @staticmethod
    def refused(error: UnavailableError) -> asyncio.Future[Any]:
        """The outcome of a transaction that is not queued."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        settle(done, None, error)
        return done

    def add_commit_hook(self, hook: CommitHook) -> None:
        """Call `hook` before every commit. The transaction that it returns becomes part of the commit."""
        self._hooks.append(hook)

    async def _commit_until_idle(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_BATCH_LIMIT]
                del self._waiting[:_BATCH_LIMIT]
                await self._commit([*self._hook_jobs(), *batch])
                if len(batch) >= SIBLINGS:
                    waiting = len(self._waiting)
                    await self._linger_for(min(len(batch) + waiting, _BATCH_LIMIT), waiting)
        finally:
            self._drain = None

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
            await run(self._connection, lambda connection: _commit_batch(connection, batch, self._size_limit))
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
            if job.error is None:
                for event in job.events:
                    self._events.publish(event)
            settle(job.done, job.result, job.error)


def _fail(batch: list[Job], error: BaseException) -> None:
    reason = passing_failure(error)
    answer = unavailable(reason) if reason is not None else error
    for job in batch:
        settle(job.done, None, answer)


class _UncleanError(Exception):
    """A transaction failed after it had changed something; its batch must be run again."""


def _commit_batch(connection: sqlite3.Connection, batch: list[Job], size_limit: SizeLimit) -> None:
    """Run the batch in one commit, in the connection's thread, and measure the database; outcomes are left in
    the jobs. A transaction that failed and changed nothing is left out; otherwise all is rolled back, and run
    again with a savepoint for each. Raises when the whole batch failed.
    """
    try:
        _run_batch(connection, batch, size_limit, _run_bare)
    except _UncleanError:
        _run_batch(connection, batch, size_limit, _run_in_savepoints)


def _run_batch(
    connection: sqlite3.Connection,
    batch: list[Job],
    size_limit: SizeLimit,
    run_jobs: Callable[[sqlite3.Cursor, list[Job]], None],
) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        run_jobs(connection.cursor(), batch)
        size_limit.measure(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _run_bare(cursor: sqlite3.Cursor, batch: list[Job]) -> None:
    connection = cursor.connection
    for job in batch:
        changes = connection.total_changes
        try:
            _play(cursor, job)
        except Exception as error:
            if passing_failure(error) is not None:
                raise
            if connection.total_changes != changes:
                raise _UncleanError from error
            job.error = error


def _run_in_savepoints(cursor: sqlite3.Cursor, batch: list[Job]) -> None:
    for job in batch:
        cursor.execute("SAVEPOINT job")
        try:
            _play(cursor, job)
        except Exception as error:
            if passing_failure(error) is not None:
                raise
            cursor.execute("ROLLBACK TO job")
            job.error = error
        cursor.execute("RELEASE job")


def _play(cursor: sqlite3.Cursor, job: Job) -> None:
    """Drive the generator: execute its statements, send it their rows, keep its events and its result."""
    job.error = None
    events: list[DomainEvent] = []
    steps = job.begin()
    execute, send = cursor.execute, steps.send
    try:
        step = next(steps)
        while True:
            if type(step) is Statement:  # it is final; isinstance would take longer
                execute(step.sql, step.parameters)
                step = send(cursor.fetchall() if cursor.description else [(_changes(cursor),)])
            elif type(step) is ForEach:
                step = send([(cursor.executemany(*step).rowcount,)])
            else:
                events.append(step)
                step = next(steps)
    except StopIteration as stop:
        job.result = stop.value
        job.events = events


def _changes(cursor: sqlite3.Cursor) -> int:
    if cursor.rowcount >= 0:
        return cursor.rowcount
    # Begun with WITH, it is not counted.
    changes: int = cursor.connection.execute("SELECT changes()").fetchone()[0]
    return changes
