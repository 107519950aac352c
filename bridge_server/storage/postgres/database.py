"""The PostgreSQL database of one of several processes: two connections for writing, four for reading."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.storage.database import NO_TURNS, Result, Row, Transaction, Turns, Value
from bridge_server.storage.postgres.clock import CorrectedClock
from bridge_server.storage.postgres.commits import register, unregister
from bridge_server.storage.postgres.connection import READS_ONLY, KeptConnection, connect, kept
from bridge_server.storage.postgres.ear import Ear
from bridge_server.storage.postgres.failures import WIRE_FAILURES
from bridge_server.storage.postgres.lane import CommitLane, CommitListener
from bridge_server.storage.postgres.pooler import require_statements
from bridge_server.storage.postgres.reads import CoalescedReads
from bridge_server.storage.postgres.statements import Texts

QUICK, BULK = 0, 1
"""The lanes: for most transactions, and for long ones, which must not stand before the others."""
_BULK_TURNS = frozenset({"sendings", "figures", "project", "sweep"})
_READER_COUNT = 4
_WAITING_WRITES_LIMIT = 20_000
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
        self._lane_links: list[KeptConnection] = []
        self._links: list[KeptConnection] = []
        self._readers = CoalescedReads(())
        self._bytes = 0
        self.number = 0
        self.ear: Ear | None = None
        """Hears of the commits of other processes, if this one waits for any."""
        self.clock: CorrectedClock | None = None
        """Corrected to the database server's, unless a test has its own."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Be one of the processes; on leaving, commit queued transactions and close every connection.

        Raises what asyncpg raises and OSError when the database cannot be reached.
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
                await asyncio.gather(*(lane.finish() for lane in self._lanes))
                await self._readers.finish()

    @property
    def name(self) -> str:
        """The name under which the server of the database lists the sessions of this process."""
        return f"bridge-server/{self.number}"

    @property
    def other_processes(self) -> int:
        """The number of other processes on the database at the last look."""
        return 0 if self.ear is None else self.ear.other_processes

    def link(self, **settings: str) -> KeptConnection:
        """One more connection of this process, not opened yet."""
        return kept(self.url, self.name, self._texts, is_pooled=self._is_pooled, **settings)

    def add_commit_listener(self, listener: CommitListener) -> None:
        """Call this with each commit, once its events are published here."""
        self._listeners.append(listener)

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return await self._readers.read(sql, parameters)

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
        if self.ear is not None and not self.ear.is_deaf:
            missing.extend(self.ear.troubles)
        faults = [link.fault for link in self._links if link.fault is not None and not link.is_open]
        missing.extend(f"the database {fault}" for fault in dict.fromkeys(faults))
        if self.clock is not None:
            missing.extend(self.clock.missing)
        return missing

    @property
    def troubles(self) -> Sequence[str]:
        """These reasons, and faults that an operator has to mend although the service goes on."""
        deafness = self.ear.troubles if self.ear is not None and self.ear.is_deaf else ()
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
        wire = await connect(self.url, "bridge-server", is_pooled=self._is_pooled)
        try:
            return await register(wire, [QUICK, BULK])
        finally:
            await wire.close()

    async def _open(self, stack: AsyncExitStack) -> None:
        self._lane_links = [self.link() for _ in (QUICK, BULK)]
        readers = [self.link(**READS_ONLY) for _ in range(_READER_COUNT)]
        self._links = [*self._lane_links, *readers]
        for each in self._links:
            await stack.enter_async_context(each.held())
        outcomes = await asyncio.gather(*(each.connect() for each in self._links), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        await require_statements(*(link.wire for link in self._lane_links))
        self._lanes = [
            CommitLane(number, each, self._events, self._listeners, _WAITING_WRITES_LIMIT)
            for number, each in enumerate(self._lane_links)
        ]
        for lane in self._lanes:
            lane.use(self.number)
        self._readers = CoalescedReads(readers, self._heavy)

    async def _unregister(self) -> None:
        with suppress(*WIRE_FAILURES):
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
