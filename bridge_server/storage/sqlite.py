"""The SQLite driver: one connection that writes, a few that read, one that tends the log."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bridge_server.kernel.signals import Signals
from bridge_server.storage.checkpoint import Checkpointer
from bridge_server.storage.connection import open_connection
from bridge_server.storage.database import Result, Row, Transaction, Value
from bridge_server.storage.group_commit import GroupCommit
from bridge_server.storage.readers import Readers

_READER_COUNT = 2
_WAITING_WRITES_LIMIT = 20_000


class SqliteDatabase:
    """A database file in WAL mode with `synchronous = FULL`: what was answered survives a power cut."""

    def __init__(self, writer: GroupCommit, readers: Readers, checkpointer: Checkpointer) -> None:
        self._writer = writer
        self._readers = readers
        self._checkpointer = checkpointer

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return await self._readers.read(sql, parameters)

    async def transaction(self, begin: Callable[[], Transaction[Result]]) -> Result:
        result: Result = await self._writer.submit(begin)
        return result

    def ride_along(self, source: Callable[[], Callable[[], Transaction[Any]] | None]) -> None:
        """Before every commit ask `source` for a transaction of its own to share it."""
        self._writer.ride_along(source)

    def figures(self) -> dict[str, int]:
        """What an operator watches: commits, transactions in them, bytes in the write-ahead log."""
        return {
            "commits": self._writer.commits,
            "transactions": self._writer.transactions,
            "log_bytes": self._checkpointer.log_bytes,
        }


@asynccontextmanager
async def open_database(path: Path, signals: Signals) -> AsyncIterator[SqliteDatabase]:
    """Open a migrated database; on leaving, commit what is queued and close every connection."""
    async with AsyncExitStack() as stack:

        async def connect() -> Any:
            connection = await open_connection(path)
            stack.push_async_callback(connection.close)
            return connection

        writer = GroupCommit(await connect(), signals, _WAITING_WRITES_LIMIT)
        readers = Readers([await connect() for _ in range(_READER_COUNT)])
        checkpointer = Checkpointer(await connect(), path)
        tending = asyncio.create_task(checkpointer.run_forever())
        try:
            yield SqliteDatabase(writer, readers, checkpointer)
        finally:
            tending.cancel()
            with suppress(asyncio.CancelledError):
                await tending
            await writer.finish()
            await readers.finish()
