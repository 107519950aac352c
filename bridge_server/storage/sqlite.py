"""The SQLite driver: its connections for writing, for reading, for look-ups and for checkpoints."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import aiosqlite
import structlog

from bridge_server.kernel.background import running, settle
from bridge_server.kernel.events import Events
from bridge_server.kernel.values import dataclass
from bridge_server.storage.connection import (
    PAGE_CACHE_KIBIBYTES,
    LogFile,
    LogState,
    Presence,
    open_connection,
    open_here,
    passing_failure,
    run,
    unreadable,
)
from bridge_server.storage.database import NO_TURNS, Result, Row, Transaction, Turns, Value
from bridge_server.storage.group_commit import CommitHook, GroupCommit, SizeLimit

_READS_AT_ONCE = 64
_CHECKPOINT_EVERY_SECONDS = 0.25
_WORTHWHILE_BYTES = 2**20
_QUIET_SECONDS = 5.0
_FILE_TIME_SECONDS = 0.02  # two writes that are closer leave the file with one time: the later is not noticed

# A log that grows for so long is written faster than it is copied, or another process reads an old state.
_ALARMING_BYTES = 256 * 2**20
_HURRIED_EVERY_SECONDS = 0.02
_HURRIED_TRIES = 20
_FEW_PAGES = 256

_READER_COUNT = 2
_READER_CACHE_KIBIBYTES = 2_048  # a crowd of reads fills it for good; three times as much made none quicker
_WAITING_WRITES_LIMIT = 20_000
_LONG_BY_QUICKEST = 50
_LEFT_AFTER_LONG = 16

log = structlog.get_logger()


class SqliteDatabase:
    """A migrated file in WAL mode with `synchronous = FULL`: a commit survives a power cut."""

    takes_turns = False  # one connection writes

    def __init__(self, path: Path, events: Events, limit_bytes: int | None = None) -> None:
        self.path = path
        self._log_file = LogFile(path)
        self._size_limit = SizeLimit(limit_bytes, self._log_file)
        self._presence = Presence(path)
        self._writer = GroupCommit(events, _WAITING_WRITES_LIMIT, self._size_limit, self._presence)
        self._readers = _Readers()
        self._look_ups = _LookUps()
        self.look_up = self._look_ups.read
        self._checkpointer = Checkpointer(self._log_file, self._size_limit)
        self._writer_connection: aiosqlite.Connection | None = None
        self._data_version = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Hold the file open; on leaving, commit queued transactions and close every connection."""
        async with AsyncExitStack() as stack:

            async def connect(
                page_cache_kibibytes: int = PAGE_CACHE_KIBIBYTES, *, is_patient: bool = True
            ) -> aiosqlite.Connection:
                connection = await open_connection(self.path, page_cache_kibibytes, is_patient=is_patient)
                stack.push_async_callback(connection.close)
                return connection

            self._writer_connection = await connect()
            self._data_version = await self._read_data_version()
            self._writer.use(self._writer_connection)
            self._readers.use([await connect(_READER_CACHE_KIBIBYTES) for _ in range(_READER_COUNT)])
            here = open_here(self.path, _READER_CACHE_KIBIBYTES)
            stack.callback(here.close)
            self._look_ups.use(here)
            self._presence.remember()
            await run(self._writer_connection, self._size_limit.measure)
            try:
                async with running(self._checkpointer.run_forever(await connect(is_patient=False))):
                    yield
            finally:
                await self._writer.finish()
                await self._readers.finish()

    def read(self, sql: str, parameters: Sequence[Value] = ()) -> Awaitable[list[Row]]:
        return self._readers.read(sql, parameters)

    def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Awaitable[Result]:
        if adds and self._size_limit.limit_bytes is not None:
            if self._size_limit.is_full:
                return self._writer.refused(self._size_limit.error())
            begin = self._size_limit.guarding(begin)
        return self._writer.submit(begin)

    def add_commit_hook(self, hook: CommitHook) -> None:
        """Call `hook` before every commit. The transaction that it returns becomes part of the commit."""
        self._writer.add_commit_hook(hook)

    def order_failures(self, before_commit: Callable[[], None]) -> None:
        """Call `before_commit` before every commit, which fails with the error that it raises."""
        self._writer.order_failures(before_commit)

    async def has_changed_outside(self) -> bool:
        """Whether another process has committed something since this was last asked."""
        seen, self._data_version = self._data_version, await self._read_data_version()
        return self._data_version != seen

    async def _read_data_version(self) -> int:
        # The number that a connection sees changes with the commits of others, and only one writes here.
        assert self._writer_connection is not None
        statement = "PRAGMA data_version"
        return int(await run(self._writer_connection, lambda raw: raw.execute(statement).fetchone()[0]))

    def require_presence(self) -> None:
        """Raise UnavailableError when the file that is open is not the one at its path any more."""
        self._presence.require()

    @property
    def is_full(self) -> bool:
        return self._size_limit.is_full

    def require_room(self) -> None:
        self._size_limit.require()

    @property
    def missing(self) -> tuple[str, ...]:
        return ()

    @property
    def troubles(self) -> list[str]:
        return ["the database is full (database_limit): nothing is added"] if self.is_full else []

    @property
    def is_busy(self) -> bool:
        return self._writer.is_busy or self._readers.are_busy

    @property
    def last_commit_failed(self) -> bool:
        """Whether the most recent attempt to commit was refused by the disk or by a lock."""
        return self._writer.last_commit_failed

    def figures(self) -> dict[str, int]:
        """Gauges: bytes of the file and of its log, commits, transactions in them; with a limit, its use."""
        return {
            "bytes": self._presence.size_bytes,
            "commits": self._writer.commits,
            "transactions": self._writer.transactions,
            "log_bytes": self._log_file.size_bytes,
            **self._size_limit.figures(),
        }


@dataclass(slots=True)
class _Read:
    sql: str
    parameters: Sequence[Value]
    done: asyncio.Future[list[Row]]
    rows: list[Row] | None = None
    error: Exception | None = None


class _Readers:
    """A few connections of their own for reads, never behind a commit, with one queue. Waiting reads are
    taken together, one hop and one snapshot for all; a reader that is busy with a slow one leaves the rest to
    the next. Every statement is fetched whole before the next begins: an open cursor would pin an old
    snapshot.
    """

    def __init__(self) -> None:
        self._idle: list[aiosqlite.Connection] = []
        self._waiting: list[_Read] = []
        self._busy: set[asyncio.Task[None]] = set()

    def use(self, connections: list[aiosqlite.Connection]) -> None:
        """Read on these connections from now on."""
        self._idle = list(connections)

    def read(self, sql: str, parameters: Sequence[Value]) -> asyncio.Future[list[Row]]:
        """All rows of the statement, from a snapshot taken after this call began."""
        read = _Read(sql, parameters, asyncio.get_running_loop().create_future())
        self._waiting.append(read)
        if self._idle:
            task = asyncio.create_task(self._serve(self._idle.pop()))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return read.done

    @property
    def are_busy(self) -> bool:
        """Whether a read is under way."""
        return bool(self._busy)

    async def finish(self) -> None:
        """Wait until every read under way is answered."""
        while self._busy:
            await asyncio.wait(self._busy)

    async def _serve(self, connection: aiosqlite.Connection) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_READS_AT_ONCE]
                del self._waiting[:_READS_AT_ONCE]
                await _serve_batch(connection, batch)
        finally:
            self._idle.append(connection)


async def _serve_batch(connection: aiosqlite.Connection, batch: list[_Read]) -> None:
    try:
        await run(connection, lambda raw: _read_all(raw, batch))
    except BaseException as error:  # every caller must have an answer
        for read in batch:
            settle(read.done, None, error)
        if not isinstance(error, Exception):
            raise
        return
    for read in batch:
        reason = None if read.error is None else passing_failure(read.error)
        settle(read.done, read.rows, unreadable(reason) if reason is not None else read.error)


def _read_all(connection: sqlite3.Connection, batch: list[_Read]) -> None:
    """Read from one snapshot, taken now: to take one for each read costs as much as the reading."""
    cursor = connection.cursor()
    execute, fetchall = cursor.execute, cursor.fetchall
    execute("BEGIN")
    try:
        for read in batch:
            try:
                execute(read.sql, read.parameters)
                read.rows = fetchall()
            except Exception as error:  # kept for the caller of this read; other reads go on
                read.error = error
    finally:
        if connection.in_transaction:  # some failures end it
            execute("ROLLBACK")


class _LookUps:
    """Reads on the event loop's own thread: a hop to another thread and back takes longer than a look-up, and
    no reader waits for a writer. But for what is not in memory all requests wait. So after a look-up that
    took many times as long as the quickest one, the next ones are left to the readers.
    """

    def __init__(self) -> None:
        self._cursor: sqlite3.Cursor | None = None
        self._left_to_readers = 0
        self._quickest_seconds = inf

    def use(self, connection: sqlite3.Connection) -> None:
        """Read on this connection from now on."""
        self._cursor = connection.cursor()

    def read(self, sql: str, parameters: Sequence[Value]) -> list[Row] | None:
        """All rows of the statement; None if a reader is to see to it, and to what goes wrong."""
        if self._cursor is None:
            return None
        if self._left_to_readers:
            self._left_to_readers -= 1
            return None
        began = perf_counter()
        try:
            rows = self._cursor.execute(sql, parameters).fetchall()
        except sqlite3.Error:
            return None
        seconds = perf_counter() - began
        if seconds < self._quickest_seconds:
            self._quickest_seconds = seconds
        elif seconds > _LONG_BY_QUICKEST * self._quickest_seconds:
            self._left_to_readers = _LEFT_AFTER_LONG
        return rows


class _Progress(NamedTuple):
    """A checkpoint's result: whether it was hindered, the log's pages, the pages copied so far."""

    is_blocked: int
    pages: int
    copied: int

    @property
    def is_complete(self) -> bool:
        return not self.is_blocked and self.pages == self.copied

    def is_unlike(self, before: "_Progress") -> bool:
        """Whether there is more to do, and something was done: else a reader is in the way."""
        return not self.is_complete and self.copied != before.copied


class Checkpointer:
    """Moves the write-ahead log into the database file, on a connection of its own, outside the write path:
    often and a little at a time, since a commit that meets the flush of a long log waits for all of it. A
    step that needs a lock of others is tried later, so that a reader in another process, such as a backup's,
    is never waited for with the writer's lock held. In a pause of the writer the log is cut off.
    """

    def __init__(self, log_file: LogFile, size_limit: SizeLimit) -> None:
        self._log_file = log_file
        self._size_limit = size_limit
        self._copied: LogState | None = None
        self._seen = LogState(0, 0)
        self._seen_at = 0.0
        self._progress = _Progress(0, 0, 0)
        self._is_behind = False

    async def run_forever(self, connection: aiosqlite.Connection) -> None:
        """Checkpoint whenever it is worthwhile; a failure is logged and tried again."""
        while True:
            await asyncio.sleep(_HURRIED_EVERY_SECONDS if self._is_behind else _CHECKPOINT_EVERY_SECONDS)
            try:
                await self._tend(connection)
            except Exception as error:  # the next time may go better
                log.warning("checkpoint_failed", error=str(error), next_try_seconds=_CHECKPOINT_EVERY_SECONDS)

    async def _tend(self, connection: aiosqlite.Connection) -> None:
        self._is_behind = False
        if self._size_limit.limit_bytes is not None:
            await run(connection, self._size_limit.measure)
        state, now = self._log_file.state, asyncio.get_running_loop().time()
        if state != self._seen:
            self._seen, self._seen_at = state, now
        is_quiet = self._size_limit.is_full or now - self._seen_at >= _QUIET_SECONDS
        if not state.size_bytes or not (is_quiet or state.size_bytes >= _WORTHWHILE_BYTES):
            return
        if state != self._copied:
            tries = _HURRIED_TRIES if state.size_bytes > _ALARMING_BYTES else 0
            progress = await run(connection, lambda raw: _copy_log(raw, tries))
            self._is_behind = tries > 0 and progress.is_unlike(self._progress)
            self._progress = progress
            if progress.is_complete and now - self._seen_at > _FILE_TIME_SECONDS:
                self._copied = state
        if is_quiet and state == self._copied:
            self._seen_at = now  # if a reader is in the way, it has as long again
            await run(connection, lambda raw: _checkpoint(raw, "TRUNCATE"))


def _copy_log(connection: sqlite3.Connection, tries: int) -> _Progress:
    """Copy what can be copied. While more comes than is copied, the log is tried to be ended so often: once
    little is left, between two commits, so that the next begins at its start.
    """
    before, progress = _Progress(0, 0, 0), _checkpoint(connection, "PASSIVE")
    while tries and progress.is_unlike(before):
        before = progress
        is_nearly_empty = progress.pages - progress.copied <= _FEW_PAGES
        progress = _checkpoint(connection, "RESTART" if is_nearly_empty else "PASSIVE")
        tries -= 1
    return progress


def _checkpoint(connection: sqlite3.Connection, mode: str) -> _Progress:
    return _Progress(*connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone())
