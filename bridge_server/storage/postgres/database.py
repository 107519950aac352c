"""The PostgreSQL database of one of several processes: two connections for writing, four for reading."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

from bridge_server.kernel.background import running, settle
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.values import dataclass
from bridge_server.storage.database import NO_TURNS, Result, Row, Transaction, Turns, Value
from bridge_server.storage.postgres import connection, failures
from bridge_server.storage.postgres.clock import CorrectedClock
from bridge_server.storage.postgres.group_commit import CommitLane, CommitListener, register, unregister
from bridge_server.storage.postgres.listening import Listener
from bridge_server.storage.postgres.statements import Texts

QUICK, BULK = 0, 1
"""The lanes: for most transactions, and for those that are long or wait for a turn."""
_BULK_TURNS = frozenset({"sendings", "figures", "project", "sweep"})
_READER_COUNT = 4
_WAITING_WRITES_LIMIT = 20_000
_READS_LIMIT = 64
_SIZE_SECONDS = 60.0
_SIZE = "SELECT pg_database_size(current_database())"


class PostgresDatabase:
    """A migrated database. A commit that is answered survives a crash of the server."""

    def __init__(
        self,
        url: str,
        events: Events,
        overrides: Mapping[str, str],
        *,
        direct_url: str | None = None,
        heavy: Collection[str] = (),
    ) -> None:
        """With `direct_url`, `url` is a pooler's. Few reads of `heavy` statements run at a time."""
        self.url = url
        self.direct_url = direct_url or url
        self._is_pooled = direct_url is not None
        self._events = events
        self._texts = Texts(overrides)
        self._heavy = heavy
        self._listeners: list[CommitListener] = []
        self._lanes: list[CommitLane] = []
        self._lane_links: list[connection.KeptConnection] = []
        self._links: list[connection.KeptConnection] = []
        self._readers = CoalescedReads(())
        self._bytes = 0
        self.number = 0
        self.listener: Listener | None = None
        """Hears of the commits of other processes, if this one waits for any."""
        self.clock: CorrectedClock | None = None
        """Corrected to the database server's, unless a test has its own."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Register this process; on leaving, commit queued transactions and close every connection. Raises
        what asyncpg raises and OSError when the database cannot be reached.
        """
        self.number = await self._registered()
        async with AsyncExitStack() as stack:
            await self._open(stack)
            await self._measure()
            stack.push_async_callback(self._unregister)
            try:
                async with running(self._measure_forever()):
                    yield
            finally:
                for lane in self._lanes:  # one hands over to the next
                    await lane.finish()
                await self._readers.finish()

    @property
    def name(self) -> str:
        """The name under which the server of the database lists the sessions of this process."""
        return f"bridge-server/{self.number}"

    @property
    def other_processes(self) -> int:
        """The number of other processes on the database at the last check."""
        return 0 if self.listener is None else self.listener.other_processes

    def link(self, **settings: str) -> connection.KeptConnection:
        """One more connection of this process, not opened yet."""
        is_pooled = self._is_pooled
        connect = partial(connection.connect, self.url, self.name, is_pooled=is_pooled, **settings)
        made = connection.KeptConnection(self.name, self._texts, connect, is_pooled=is_pooled)
        self._links.append(made)
        return made

    def add_commit_listener(self, listener: CommitListener) -> None:
        """Call this with each commit, once its events are published here."""
        self._listeners.append(listener)

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return await self._readers.read(sql, parameters)

    def look_up(self, sql: str, parameters: Sequence[Value]) -> None:
        return None

    async def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Result:
        lane = self._lanes[QUICK if turns is NO_TURNS or not _is_bulk(turns) else BULK]
        result: Result = await lane.submit(begin, turns)
        return result

    @property
    def takes_turns(self) -> bool:
        return True

    @property
    def is_busy(self) -> bool:
        return any(lane.is_busy for lane in self._lanes) or self._readers.are_busy

    @property
    def is_full(self) -> bool:
        return False

    def require_room(self) -> None:
        """The server of the database has its own limits."""

    @property
    def last_commit_failed(self) -> bool:
        """Whether the most recent attempt to commit on any lane was refused by the database or cut off."""
        return any(lane.last_commit_failed for lane in self._lanes)

    @property
    def missing(self) -> Sequence[str]:
        """The reasons why it cannot serve at this moment, for people to read; none as a rule."""
        missing = []
        if not self._readers.is_open:
            missing.append("no connection to the database for reading")
        if not all(link.is_open for link in self._lane_links):
            missing.append("no connection to the database for writing")
        if self.listener is not None and not self.listener.is_deaf:
            missing.extend(self.listener.troubles)
        faults = [link.fault for link in self._links if link.fault is not None and not link.is_open]
        missing.extend(f"the database {fault}" for fault in dict.fromkeys(faults))
        if any(link.is_short_of_space for link in self._links):
            missing.append("the disk of the database is full, and writes are refused: make room there")
        if self.clock is not None:
            missing.extend(self.clock.missing)
        return missing

    @property
    def troubles(self) -> Sequence[str]:
        """These reasons, and faults that an operator has to mend although the service goes on."""
        deafness = self.listener.troubles if self.listener is not None and self.listener.is_deaf else ()
        skew = self.clock.troubles if self.clock is not None and not self.clock.missing else ()
        return [*self.missing, *deafness, *skew]

    def figures(self) -> dict[str, int]:
        """Gauges for the operator: bytes of the database, commits, transactions in them, repeated runs."""
        return {
            "bytes": self._bytes,
            "commits": sum(lane.commits for lane in self._lanes),
            "transactions": sum(lane.transactions for lane in self._lanes),
            "runs_again": sum(lane.runs_again for lane in self._lanes),
        }

    async def _registered(self) -> int:
        wire = await connection.connect(self.url, "bridge-server", is_pooled=self._is_pooled)
        try:
            return await register(wire, [QUICK, BULK])
        finally:
            await wire.close()

    async def _open(self, stack: AsyncExitStack) -> None:
        self._lane_links = [self.link() for _ in (QUICK, BULK)]
        readers = [self.link(**connection.READS_ONLY) for _ in range(_READER_COUNT)]
        links = [*self._lane_links, *readers]
        for each in links:
            await stack.enter_async_context(each.held())
        outcomes = await asyncio.gather(*(each.connect() for each in links), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        await connection.require_statements(*(link.wire for link in self._lane_links))
        quick, bulk = self._lane_links
        rest = self._events, self._listeners, _WAITING_WRITES_LIMIT
        apart = CommitLane(BULK, bulk, *rest)
        self._lanes = [CommitLane(QUICK, quick, *rest, apart=apart), apart]
        for lane in self._lanes:
            lane.use(self.number)
        self._readers = CoalescedReads(readers, self._heavy)

    async def _unregister(self) -> None:
        with suppress(*failures.WIRE_FAILURES):
            await unregister(self._lane_links[QUICK].wire, self.number)

    async def _measure_forever(self) -> None:
        while True:
            await asyncio.sleep(_SIZE_SECONDS)
            with suppress(UnavailableError):
                await self._measure()

    async def _measure(self) -> None:
        ((self._bytes,),) = await self.read(_SIZE)


def _is_bulk(turns: Turns) -> bool:
    return any(turn.kind in _BULK_TURNS for turn in (*turns.exclusive, *turns.shared))


@dataclass(slots=True, eq=False)
class _Read:
    sql: str
    parameters: Sequence[Value]
    done: asyncio.Future[list[Row]]


class CoalescedReads:
    """A few connections that share one queue of reads. Waiting reads of one statement are sent together, in
    one exchange. Statements that are known to be slow are run alone and on half of the connections, so that a
    quick read never waits behind them.
    """

    def __init__(self, links: Sequence[connection.KeptConnection], heavy: Collection[str] = ()) -> None:
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
            raise failures.not_read(failures.LostConnectionError())
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

    async def _serve(self, link: connection.KeptConnection) -> None:
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
            settle(read.done, None, failures.not_read(failures.LostConnectionError()))

    def _take(self) -> list[_Read]:
        """The reads of the statement that has waited longest."""
        for sql, reads in self._waiting.items():
            is_heavy = sql in self._heavy
            if is_heavy and self._heavy_running >= self._heavy_limit:
                continue
            limit = 1 if is_heavy else _READS_LIMIT
            batch = [reads.popleft() for _ in range(min(limit, len(reads)))]
            del self._waiting[sql]
            if reads:
                self._waiting[sql] = reads  # behind the other statements
            return batch
        return []


async def _run(link: connection.KeptConnection, batch: list[_Read]) -> None:
    batch = [read for read in batch if not read.done.done()]
    if not batch:
        return
    try:
        await _answer(link, batch)
    except Exception as error:
        if len(batch) == 1 or failures.passing_failure(error) is not None:
            for read in batch:
                settle(read.done, None, failures.not_read(error))
            return
        for read in batch:  # one of them is at fault
            await _run(link, [read])
    except BaseException as error:
        for read in batch:
            settle(read.done, None, failures.not_read(error))
        raise


async def _answer(link: connection.KeptConnection, batch: list[_Read]) -> None:
    wire = link.wire
    try:
        answers = await _executed(link, batch)
    except Exception as error:
        found = failures.lost_or(error, wire)
        if isinstance(found, TimeoutError):
            link.drop()
        raise found from error
    for read, (rows, _) in zip(batch, answers, strict=True):
        settle(read.done, rows)


async def _executed(link: connection.KeptConnection, batch: list[_Read]) -> list[Any]:
    assert link.statements is not None
    parameters = [read.parameters for read in batch]
    try:
        return await link.statements.run_many(batch[0].sql, parameters)
    except Exception as error:
        if not failures.is_stale(error):
            raise
        link.statements.forget()
        return await link.statements.run_many(batch[0].sql, parameters)
