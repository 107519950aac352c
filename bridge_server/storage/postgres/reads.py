"""Reads on connections of their own. Waiting reads of one statement are sent together, in one exchange.

Statements that are known to be slow are run alone and on half of the connections, so that a quick read never
waits behind them.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from bridge_server.storage.database import Row, Value
from bridge_server.storage.postgres.connection import KeptConnection
from bridge_server.storage.postgres.failures import (
    LostConnectionError,
    is_stale,
    lost_or,
    passing_failure,
    unavailable,
)

_BATCH_LIMIT = 64


@dataclass(slots=True, eq=False)
class _Read:
    sql: str
    parameters: Sequence[Value]
    done: asyncio.Future[list[Row]]


class CoalescedReads:
    """A few connections that share one queue of reads."""

    def __init__(self, links: Sequence[KeptConnection], heavy: Collection[str] = ()) -> None:
        self._links = links
        self._heavy = frozenset(heavy)
        self._heavy_limit = max(1, len(links) // 2)
        self._heavy_running = 0
        self._waiting: dict[str, deque[_Read]] = {}
        self._idle = list(links)
        self._busy: set[asyncio.Task[None]] = set()

    async def read(self, sql: str, parameters: Sequence[Value]) -> list[Row]:
        """All rows of the statement, from a snapshot taken after this call began."""
        if not self.is_open:
            raise _not_now(LostConnectionError())
        read = _Read(sql, parameters, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(sql, deque()).append(read)
        self._begin()
        return await read.done

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to read on."""
        return any(link.is_open for link in self._links)

    @property
    def are_busy(self) -> bool:
        """Whether a read is under way."""
        return bool(self._busy)

    async def finish(self) -> None:
        """Wait until every read under way is answered."""
        while self._busy:
            await asyncio.wait(self._busy)

    def _begin(self) -> None:
        for place, link in enumerate(self._idle):
            if link.is_open:
                del self._idle[place]
                task = asyncio.create_task(self._serve(link))
                self._busy.add(task)
                task.add_done_callback(self._busy.discard)
                return

    async def _serve(self, link: KeptConnection) -> None:
        try:
            while link.is_open and (batch := self._take()):
                is_heavy = batch[0].sql in self._heavy
                self._heavy_running += is_heavy
                try:
                    await _run(link, batch)
                finally:
                    self._heavy_running -= is_heavy
        finally:
            self._idle.append(link)
            if self._waiting:
                self._go_on()

    def _go_on(self) -> None:
        """Hand waiting reads to another connection; without any, fail them."""
        if self.is_open:
            if any(sql not in self._heavy for sql in self._waiting) or not self._heavy_running:
                self._begin()
            return
        reads = [read for each in self._waiting.values() for read in each]
        self._waiting.clear()
        for read in reads:
            _fail(read, LostConnectionError())

    def _take(self) -> list[_Read]:
        """The reads of the statement that has waited longest."""
        for sql, reads in self._waiting.items():
            is_heavy = sql in self._heavy
            if is_heavy and self._heavy_running >= self._heavy_limit:
                continue
            limit = 1 if is_heavy else _BATCH_LIMIT
            batch = [reads.popleft() for _ in range(min(limit, len(reads)))]
            del self._waiting[sql]
            if reads:
                self._waiting[sql] = reads  # behind the other statements
            return batch
        return []


async def _run(link: KeptConnection, batch: list[_Read]) -> None:
    batch = [read for read in batch if not read.done.done()]
    if not batch:
        return
    try:
        await _answer(link, batch)
    except Exception as error:
        if len(batch) == 1 or passing_failure(error) is not None:
            for read in batch:
                _fail(read, error)
            return
        for read in batch:  # one of them is at fault
            await _run(link, [read])
    except BaseException as error:
        for read in batch:
            _fail(read, error)
        raise


async def _answer(link: KeptConnection, batch: list[_Read]) -> None:
    wire = link.wire
    try:
        answers = await _executed(link, batch)
    except Exception as error:
        found = lost_or(error, wire)
        if isinstance(found, TimeoutError):
            link.drop()
        raise found from error
    for read, (rows, _) in zip(batch, answers, strict=True):
        if not read.done.done():
            read.done.set_result(rows)


async def _executed(link: KeptConnection, batch: list[_Read]) -> list[Any]:
    assert link.statements is not None
    parameters = [read.parameters for read in batch]
    try:
        return await link.statements.run_many(batch[0].sql, parameters)
    except Exception as error:
        if not is_stale(error):
            raise
        link.statements.forget()
        return await link.statements.run_many(batch[0].sql, parameters)


def _not_now(error: BaseException) -> BaseException:
    reason = passing_failure(error)
    return unavailable(reason) if reason is not None else error


def _fail(read: _Read, error: BaseException) -> None:
    if not read.done.done():
        read.done.set_exception(_not_now(error))
        read.done.exception()
