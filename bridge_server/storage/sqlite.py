"""The SQLite driver: one connection for writing, a few for reading, one for checkpoints of the log."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiosqlite

from bridge_server.kernel.background import running
from bridge_server.kernel.events import Events
from bridge_server.storage.checkpoint import Checkpointer
from bridge_server.storage.connection import PAGE_CACHE_KIBIBYTES, open_connection, run
from bridge_server.storage.database import NO_TURNS, Result, Row, Transaction, Turns, Value
from bridge_server.storage.group_commit import CommitHook, GroupCommit
from bridge_server.storage.log_file import LogFile
from bridge_server.storage.presence import Presence
from bridge_server.storage.readers import Readers
from bridge_server.storage.size_limit import SizeLimit

_READER_COUNT = 2
_READER_CACHE_KIBIBYTES = 2_048  # a crowd of reads fills it for good; three times as much made none quicker
_WAITING_WRITES_LIMIT = 20_000


class SqliteDatabase:
    """A migrated file in WAL mode with `synchronous = FULL`: a commit survives a power cut."""

    def __init__(self, path: Path, events: Events, limit_bytes: int | None = None) -> None:
        self.path = path
        self._log_file = LogFile(path)
        self._size_limit = SizeLimit(limit_bytes, self._log_file)
        self._presence = Presence(path)
        self._writer = GroupCommit(events, _WAITING_WRITES_LIMIT, self._size_limit, self._presence)
        self._readers = Readers()
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
            self._presence.remember()
            await run(self._writer_connection, self._size_limit.measure)
            try:
                async with running(self._checkpointer.run_forever(await connect(is_patient=False))):
                    yield
            finally:
                await self._writer.finish()
                await self._readers.finish()

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return await self._readers.read(sql, parameters)

    async def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Result:
        if adds and self._size_limit.is_limited:
            self._size_limit.require()
            begin = self._size_limit.guarding(begin)
        result: Result = await self._writer.submit(begin)
        return result

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
        rows = await run(
            self._writer_connection, lambda connection: connection.execute("PRAGMA data_version").fetchall()
        )
        version: int = rows[0][0]
        return version

    def require_presence(self) -> None:
        """Raise UnavailableError when the file that is open is not the one at its path any more."""
        self._presence.require()

    @property
    def takes_turns(self) -> bool:
        return False  # one connection writes

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
        """Gauges for the operator: bytes of the file, commits, transactions in them, bytes in the write-ahead
        log; and with a limit, bytes that are used of it.
        """
        return {
            "bytes": self._presence.size_bytes,
            "commits": self._writer.commits,
            "transactions": self._writer.transactions,
            "log_bytes": self._log_file.size_bytes,
            **self._size_limit.figures(),
        }
