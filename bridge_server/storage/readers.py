"""Reads on connections of their own, never behind a commit.

The reads that wait are taken together, one hop for all; a reader that is busy with a slow one leaves the
rest to the next reader. Every statement is fetched whole before the next begins: a cursor left open
would pin an old snapshot.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import aiosqlite

from bridge_server.storage.connection import run
from bridge_server.storage.database import Row, Value
from bridge_server.storage.failures import passing_failure, unavailable

_BATCH_LIMIT = 64


@dataclass(slots=True)
class _Read:
    sql: str
    parameters: Sequence[Value]
    done: asyncio.Future[list[Row]]
    rows: list[Row] | None = None
    error: Exception | None = None


class Readers:
    """A few connections that share one queue of reads."""

    def __init__(self) -> None:
        self._idle: list[aiosqlite.Connection] = []
        self._waiting: list[_Read] = []
        self._busy: set[asyncio.Task[None]] = set()

    def use(self, connections: list[aiosqlite.Connection]) -> None:
        """Read on these connections from now on."""
        self._idle = list(connections)

    async def read(self, sql: str, parameters: Sequence[Value]) -> list[Row]:
        """All rows of the statement, from a snapshot taken after this call began."""
        read = _Read(sql, parameters, asyncio.get_running_loop().create_future())
        self._waiting.append(read)
        if self._idle:
            task = asyncio.create_task(self._serve(self._idle.pop()))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return await read.done

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
                batch = self._waiting[:_BATCH_LIMIT]
                del self._waiting[:_BATCH_LIMIT]
                await _run_batch(connection, batch)
        finally:
            self._idle.append(connection)


async def _run_batch(connection: aiosqlite.Connection, batch: list[_Read]) -> None:
    try:
        await run(connection, lambda raw: _read_all(raw, batch))
    except BaseException as error:  # every caller must have an answer
        for read in batch:
            if not read.done.done():
                read.done.set_exception(error)
                read.done.exception()
        if not isinstance(error, Exception):
            raise
        return
    for read in batch:
        _settle(read)


def _read_all(connection: sqlite3.Connection, batch: list[_Read]) -> None:
    for read in batch:
        try:
            read.rows = connection.execute(read.sql, read.parameters).fetchall()
        except Exception as error:  # kept for the caller of this read; other reads go on
            read.error = error


def _settle(read: _Read) -> None:
    if read.done.done():
        return
    if read.rows is not None:
        read.done.set_result(read.rows)
        return
    assert read.error is not None
    reason = passing_failure(read.error)
    read.done.set_exception(unavailable(reason) if reason is not None else read.error)
    read.done.exception()
