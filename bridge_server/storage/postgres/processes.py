"""Shared by the processes on one database: their table, wake-ups, roles, the sweep and leases."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import Any

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import DomainEvent, Events, EventTexts
from bridge_server.kernel.values import dataclass
from bridge_server.storage import database as sql
from bridge_server.storage.postgres.announcing import Announcer
from bridge_server.storage.postgres.clock import is_right
from bridge_server.storage.postgres.connection import COMMITS_EARLY, connect
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.failures import passes
from bridge_server.storage.postgres.group_commit import lock_key
from bridge_server.storage.postgres.listening import Listener, name_of_listener
from bridge_server.storage.postgres.statements import NOW_MS

log = structlog.get_logger()

_SILENT_AFTER_MS = 30_000
_FORGOTTEN_AFTER_MS = 600_000

# The commands of an operator have no URL: nobody can ask them for anything.
_LIST_PROCESSES = """
SELECT processes.number, max(processes.url), max(version), max(abs(seen_at_ms)), max(seen_at_ms) > 0,
    max(started_at_ms), bool_or(roles.owner IS NOT NULL),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM processes LEFT JOIN roles ON roles.name = 'wallet' AND roles.owner = processes.number
WHERE processes.url IS NOT NULL GROUP BY processes.number ORDER BY processes.number
"""
_SET_URL_OF_PROCESS = "UPDATE processes SET url = ? WHERE number = ?"
_READ_OWN = """
SELECT (SELECT coalesce(max(oldest_program), 0) FROM schema_versions),
    (SELECT max(url) FROM processes WHERE number = ?)
"""
# The rows of a stopped process prove its last commits, as long as another may have missed their announcement.
# They were seen by the clock of the database. Each commit writes the rows of this process again.
_SWEEP_PROCESSES = """
DELETE FROM processes WHERE (number, lane) IN (
    SELECT number, lane FROM processes
    WHERE abs(seen_at_ms) < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - ? AND number <> ?
    ORDER BY number LIMIT ?
)
"""
_SWEEP_SLICE = 100


class Processes:
    """The table as one of the processes has it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    @property
    def own_number(self) -> int:
        """The number of this process."""
        return self._database.number

    async def all(self) -> Sequence[sql.Process]:
        """Every server of the last ten minutes, oldest first."""
        return [_process(row) for row in await self._database.read(_LIST_PROCESSES)]

    async def read(self) -> tuple[int, str | None]:
        """The first migration that a program must know to use the database, and the URL of this process."""
        ((oldest_program, url),) = await self._database.read(_READ_OWN, (self.own_number,))
        return oldest_program, url

    async def announce(self, url: str) -> None:
        """Write the URL at which others reach this process."""
        await _run(self._database, _SET_URL_OF_PROCESS, url, self.own_number)

    async def sweep(self, _: int) -> int:
        """Delete the rows of processes not seen for ten minutes by the database's clock; returns how many."""
        values = (_FORGOTTEN_AFTER_MS, self.own_number, _SWEEP_SLICE)
        return sql.scalar(int, await _run(self._database, _SWEEP_PROCESSES, *values))


async def _run(database: sql.Database, statement: str, *parameters: sql.Value) -> list[sql.Row]:
    """The rows of a statement that is a transaction of its own."""

    def work() -> sql.Transaction[list[sql.Row]]:
        return (yield sql.Statement(statement, parameters))

    return await database.transaction(work)


def _process(row: sql.Row) -> sql.Process:
    number, url, version, seen_at_ms, is_on, started_at_ms, holds_wallet, now_ms = row
    ago_ms = max(0, now_ms - seen_at_ms)
    state = "stopped" if not is_on else "silent" if ago_ms > _SILENT_AFTER_MS else "running"
    return sql.Process(number, url, version, state, started_at_ms, ago_ms / 1_000, holds_wallet)


# A command has no URL. A server has none for the first moments: what it commits then counts as well.
_WRITTEN_BY_COMMANDS = (
    "SELECT coalesce(sum(written), 0)::bigint FROM processes WHERE url IS NULL AND number <> ?"
)


class OutsideCommits:
    """Detects commits of the operator's commands. Commits of servers, which announce their changes, do not
    count: each would have every server look through its outbox, which commits too.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._seen: int | None = None

    async def have_come(self) -> bool:
        """Whether a command has committed something since this was last asked."""
        rows = await self._database.read(_WRITTEN_BY_COMMANDS, (self._database.number,))
        seen, self._seen = self._seen, sql.scalar(int, rows)
        return seen is not None and seen != self._seen


@asynccontextmanager
async def opened_with_wake_ups(
    database: PostgresDatabase, events: Events, carried: Iterable[type[DomainEvent]], *, hears: bool = True
) -> AsyncIterator[Listener | None]:
    """The database, open, with an announcer of its commits; and with a listener, unless the process waits for
    nothing. The last announcement follows the last commit. Raises what `database.opened` raises.
    """
    texts = EventTexts(carried)

    def of_announcer() -> Coroutine[Any, Any, Any]:
        return connect(database.direct_url, database.name, is_pooled=False, **COMMITS_EARLY)

    def of_listener() -> Coroutine[Any, Any, Any]:
        return connect(database.direct_url, name_of_listener(database.name))

    announcer = Announcer(lambda: database.number, texts, of_announcer)
    database.add_commit_listener(announcer.on_commit)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(announcer.announcing())
        await stack.enter_async_context(database.opened())
        listener = None
        if hears:
            listener = database.listener = Listener(database.number, texts, events, announcer, of_listener)
            await stack.enter_async_context(listener.listening())
        yield listener


# A role: work that one process does at a time, such as the wallet's.
#
# An advisory lock on the listening connection says which process has the role. It ends with the connection,
# which other processes end after seconds of silence, as of a frozen process. A holder does not trust a
# connection that was silent. Each holder has an epoch, and its writes begin with the fence: a statement that
# finds the epoch of the present holder only, and that blocks a takeover until the write is committed.

_LOCKS_OF_ROLES = 1_919_904_869
_LOCK_ROLE = "SELECT pg_try_advisory_lock($1, hashtext($2))"
_MAKE_ROLE = "INSERT INTO roles (name, epoch) VALUES ($1, 0) ON CONFLICT (name) DO NOTHING"
# The listener does not wait for a write of the former holder: it reads again.
_TAKE_ROLE = """
UPDATE roles SET epoch = epoch + 1, owner = $2, url = $3
WHERE name IN (SELECT name FROM roles WHERE name = $1 FOR UPDATE SKIP LOCKED) RETURNING epoch
"""
_SET_URL_OF_HOLDER = "UPDATE roles SET url = $3 WHERE name = $1 AND epoch = $2"
_GIVE_UP_ROLE = "UPDATE roles SET owner = NULL, url = NULL WHERE name = ? AND epoch = ?"
_HOLDER_URL = "SELECT url FROM roles WHERE name = ? AND owner <> ?"
_FENCE = "SELECT 1 AS one FROM roles WHERE name = ? AND epoch = ? FOR SHARE"

_KNOWN_SECONDS = 3.0
_ROLE_PAUSE_SECONDS = 1.0
_TRY_AGAIN_SECONDS = 2


class Role:
    """The role of a name, as one process has it or waits for it."""

    def __init__(self, name: str, database: PostgresDatabase, *, is_wanted: bool) -> None:
        self._name = name
        self._database = database
        self._is_wanted = is_wanted
        self._url: str | None = None
        self._epoch: int | None = None
        self._announced_url: str | None = None
        self._has_lock = self._is_open = False
        self._is_known = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def is_held(self) -> bool:
        """Whether this process has the role, and no other one can have taken it over."""
        listener = self._database.listener
        return self._epoch is not None and listener is not None and listener.keeps_locks

    @property
    def is_served(self) -> bool:
        """Whether this process holds the role, and its resources are open."""
        return self._is_open and self.is_held

    async def holder_url(self) -> str | None:
        """The URL of the process that holds the role, if another one does. Raises UnavailableError."""
        rows = await self._database.read(_HOLDER_URL, (self._name, self._database.number))
        return rows[0][0] if rows else None

    def announce(self, url: str) -> None:
        """Write the URL at which other processes reach this one."""
        self._url = url
        if self._database.listener is not None:
            self._database.listener.check_now()

    def fence(self) -> sql.Transaction[None]:
        """The first step of a transaction of the holder. Raises UnavailableError for a former one."""
        if self._epoch is None or not (yield sql.Statement(_FENCE, (self._name, self._epoch))):
            reason = f"Nothing was stored: another process has taken over the {self._name}."
            raise UnavailableError(reason, _TRY_AGAIN_SECONDS)

    async def serve_forever(self, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Keep the resources open whenever this process holds the role, until cancelled."""
        assert self._database.listener is not None
        self._database.listener.use(self._on_check, self._on_lost)
        try:
            while True:
                while self._epoch is None:
                    await self._until_changed()
                try:
                    await self._serve(resources)
                except Exception as error:
                    if isinstance(error, UnavailableError) or passes(error):
                        reason = str(error) or type(error).__name__
                        log.warning("role_not_served", role=self._name, reason=reason)
                    else:
                        log.exception("role_not_served", role=self._name)
                    await asyncio.sleep(_ROLE_PAUSE_SECONDS)
        finally:
            await self._give_up()

    async def known(self) -> None:
        """Return once it is known whether this process holds the role, or after a few seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_KNOWN_SECONDS):
                await self._is_known.wait()

    async def _serve(self, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        epoch = self._epoch
        async with resources():
            try:
                self._is_open = self._epoch == epoch
                self._is_known.set()
                while self._epoch == epoch:
                    await self._until_changed()
            finally:
                self._is_open = False

    async def _until_changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def _on_check(self, wire: Any) -> None:
        listener = self._database.listener
        assert listener is not None
        if self._epoch is not None:
            url = self._url
            if url != self._announced_url:
                await wire.execute(_SET_URL_OF_HOLDER, self._name, self._epoch, url)
                self._announced_url = url
        elif self._is_wanted and not listener.is_deaf and not listener.has_session:
            pass  # a pooler of transactions gives the lock to every process: wait for the echo
        elif self._is_wanted and listener.has_session and await self._is_locked(wire):
            await self._take(wire)
        else:
            self._is_known.set()

    async def _is_locked(self, wire: Any) -> bool:
        if not self._has_lock:
            self._has_lock = await wire.fetchval(_LOCK_ROLE, _LOCKS_OF_ROLES, self._name)
        return self._has_lock

    async def _take(self, wire: Any) -> None:
        url = self._url
        await wire.execute(_MAKE_ROLE, self._name)
        epoch = await wire.fetchval(_TAKE_ROLE, self._name, self._database.number, url)
        if epoch is not None and self._is_wanted:
            log.info("role_taken", role=self._name, epoch=epoch)
            self._epoch, self._announced_url = epoch, url
            self._changed.set()

    def _on_lost(self) -> None:
        """Note that the connection has ended, and the lock with it."""
        self._has_lock = False
        if self._epoch is not None:
            log.warning("role_lost", role=self._name, epoch=self._epoch)
            self._epoch, self._is_open = None, False
            self._changed.set()

    async def _give_up(self) -> None:
        """Have the role's row name no holder, at once; the lock ends with the connection."""
        epoch, self._epoch, self._is_wanted = self._epoch, None, False
        if epoch is not None:
            with suppress(UnavailableError):
                await _run(self._database, _GIVE_UP_ROLE, self._name, epoch)


# One process sweeps at a time: an advisory lock of the session that hears the other processes.

_SWEEPER = lock_key(sql.Turn("sweeper"))
_LOCK_SWEEPER = "SELECT pg_try_advisory_lock($1)"
_UNLOCK_SWEEPER = "SELECT pg_advisory_unlock($1)"


def sweeper_hold(database: PostgresDatabase) -> Callable[[], AbstractAsyncContextManager[bool]]:
    """Makes contexts of one sweep each, whose value says whether this process may sweep: it must hear the
    other processes, and its clock must agree with the database server's. The connection has the lock.
    """

    @asynccontextmanager
    async def hold() -> AsyncIterator[bool]:
        listener = database.listener
        if listener is None:
            yield False
            return
        wire = listener.wire
        is_held = await _asked(listener, _LOCK_SWEEPER)
        try:
            clock = database.clock
            yield is_held and (clock is None or await is_right(clock, database))
        finally:
            if is_held and listener.wire is wire:
                with suppress(UnavailableError):
                    await _asked(listener, _UNLOCK_SWEEPER)

    return hold


async def _asked(listener: Listener, statement: str) -> bool:
    """The result of the statement. If it fails, the session, which may have the lock, is ended."""
    wire = listener.wire
    try:
        return bool(await listener.ask(statement, _SWEEPER))
    except BaseException:
        if wire is not None:
            wire.terminate()
        raise


# Leases of the outbox's destinations, in a table that all processes share.
#
# A lease ends by the clock of the database, and for its holder earlier, by the time that has elapsed here
# since before it was asked for. So a process that was frozen or cut off begins nothing that another one may
# send.

# Every statement on several rows has them in one order: no two processes can wait for each other.
_TAKE_LEASES = f"""
INSERT INTO outbox_lanes (destination, owner, until_ms)
SELECT value, ?1::bigint, {NOW_MS} + ?2::bigint FROM json_texts(?3) ORDER BY value
ON CONFLICT (destination) DO UPDATE SET owner = excluded.owner, until_ms = excluded.until_ms
WHERE outbox_lanes.owner = excluded.owner OR outbox_lanes.until_ms <= {NOW_MS}
RETURNING destination
"""  # noqa: S608 - the time's expression
_OWN_LEASES = """
(SELECT destination FROM outbox_lanes WHERE owner = ?1 AND destination IN (SELECT value FROM json_texts(?2))
 ORDER BY destination FOR UPDATE) AS own
"""
_RENEW_LEASES = f"""
UPDATE outbox_lanes SET until_ms = {NOW_MS} + ?3::bigint FROM {_OWN_LEASES}
WHERE outbox_lanes.destination = own.destination RETURNING outbox_lanes.destination
"""  # noqa: S608 - parts of the statement
_RELEASE_LEASES = (
    f"DELETE FROM outbox_lanes USING {_OWN_LEASES} WHERE outbox_lanes.destination = own.destination"  # noqa: S608
)
_RELEASE_ALL_LEASES = """
DELETE FROM outbox_lanes USING
    (SELECT destination FROM outbox_lanes WHERE owner = ? ORDER BY destination FOR UPDATE) AS own
WHERE outbox_lanes.destination = own.destination
"""
_FORGET_ENDED_LEASES = f"""
DELETE FROM outbox_lanes USING
    (SELECT destination FROM outbox_lanes WHERE until_ms <= {NOW_MS} FOR UPDATE SKIP LOCKED) AS ended
WHERE outbox_lanes.destination = ended.destination
"""  # noqa: S608 - the time's expression
_LEASED_ELSEWHERE = f"SELECT destination FROM outbox_lanes WHERE owner <> ? AND until_ms > {NOW_MS}"  # noqa: S608

_RENEWALS_PER_LEASE = 4
_IDLE_SECONDS = 1.0
_KNOWN_ELSEWHERE_US = 1_000_000
_WAS_HERE_US = 5_000_000
_TICKS_TO_RECOUNT = (4, 6)


@dataclass(frozen=True, slots=True)
class _Lease:
    tenure: int
    until_us: int


class LeasedDestinations:
    """Destinations leased for `lease_seconds`; no delivery begins with less than `delivery_seconds` left."""

    def __init__(
        self,
        database: sql.Database,
        number: Callable[[], int],
        lease_seconds: float,
        delivery_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        """`number` gives the number of this process, once the database is open."""
        self._database = database
        self._number = number
        self._lease_us = int(lease_seconds * 1e6)
        self._delivery_us = int(delivery_seconds * 1e6)
        self._clock = clock or SystemClock()
        self._tenures = count(1)
        self._leases: dict[str, _Lease] = {}
        self._elsewhere_until_us: dict[str, int] = {}
        self._given_up_us: dict[str, int] = {}
        self._wanted: set[str] = set()
        self._exchange = asyncio.Lock()

    def tenure(self, destination: str) -> int:
        lease = self._leases.get(destination)
        if lease is None or self._clock.elapsed_us() >= lease.until_us - self._delivery_us:
            return 0
        return lease.tenure

    def is_elsewhere(self, destination: str) -> bool:
        return self._clock.elapsed_us() < self._elsewhere_until_us.get(destination, 0)

    def was_here(self, destination: str) -> bool:
        return destination in self._leases or destination in self._given_up_us

    async def take(self, destination: str) -> bool:
        """Lease it, in one statement with all others that are asked for meanwhile."""
        if not self.tenure(destination) and not self.is_elsewhere(destination):
            self._wanted.add(destination)
            async with self._exchange:
                if self._wanted:
                    await self._take_wanted()
        return bool(self.tenure(destination))

    async def refresh(self) -> None:
        rows = await self._database.read(_LEASED_ELSEWHERE, (self._number(),))
        until_us = self._clock.elapsed_us() + _KNOWN_ELSEWHERE_US
        self._elsewhere_until_us = {destination: until_us for (destination,) in rows}

    def ticks_to_recount(self) -> int:
        """A different number each time, so that the processes do not search all at once."""
        return random.randint(*_TICKS_TO_RECOUNT)  # noqa: S311 - no secret

    @asynccontextmanager
    async def holding(self, in_use: Callable[[], Collection[str]]) -> AsyncIterator[None]:
        """Renew the leases of what is in use inside, and end the others; on leaving, all of them."""
        await _run(self._database, _FORGET_ENDED_LEASES)
        try:
            async with running(self._renew_forever()), running(self._release_idle_forever(in_use)):
                yield
        finally:
            self._leases.clear()
            with suppress(UnavailableError):  # they end by themselves
                await _run(self._database, _RELEASE_ALL_LEASES, self._number())

    async def _take_wanted(self) -> None:
        wanted, self._wanted = self._wanted, set()
        asked_us = self._clock.elapsed_us()
        names, lease_ms = sql.json_array(sorted(wanted)), self._lease_us // 1_000
        try:
            rows = await _run(self._database, _TAKE_LEASES, self._number(), lease_ms, names)
        except UnavailableError as error:
            log.warning("leases_not_taken", reason=error.detail)
            return
        taken = {destination for (destination,) in rows}
        for destination in taken:
            self._leases[destination] = _Lease(next(self._tenures), asked_us + self._lease_us)
            self._given_up_us.pop(destination, None)
        until_us = self._clock.elapsed_us() + _KNOWN_ELSEWHERE_US
        self._elsewhere_until_us.update(dict.fromkeys(wanted - taken, until_us))

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._lease_us / 1e6 / _RENEWALS_PER_LEASE)
            with suppress(UnavailableError):  # the next time may go better
                async with self._exchange:
                    await self._renew()

    async def _renew(self) -> None:
        destinations = sorted(self._leases)
        if not destinations:
            return
        asked_us = self._clock.elapsed_us()
        names, lease_ms = sql.json_array(destinations), self._lease_us // 1_000
        rows = await _run(self._database, _RENEW_LEASES, self._number(), names, lease_ms)
        kept = {destination for (destination,) in rows}
        for destination in kept:
            self._leases[destination] = _Lease(self._leases[destination].tenure, asked_us + self._lease_us)
        for destination in set(destinations) - kept:
            log.warning("lease_lost", destination=destination)
            del self._leases[destination]

    async def _release_idle_forever(self, in_use: Callable[[], Collection[str]]) -> None:
        idle: set[str] = set()
        while True:
            await asyncio.sleep(_IDLE_SECONDS)
            now_us = self._clock.elapsed_us()
            self._given_up_us = _until(self._given_up_us, now_us - _WAS_HERE_US)
            self._elsewhere_until_us = _until(self._elsewhere_until_us, now_us)
            async with self._exchange:
                idle_before, idle = idle, self._leases.keys() - set(in_use())
                await self._release(sorted(idle & idle_before))

    async def _release(self, destinations: Collection[str]) -> None:
        """End these leases. Where the database does not take that, they end by themselves."""
        if not destinations:
            return
        for destination in destinations:
            del self._leases[destination]
        self._given_up_us.update(dict.fromkeys(destinations, self._clock.elapsed_us()))
        with suppress(UnavailableError):
            await _run(self._database, _RELEASE_LEASES, self._number(), sql.json_array(destinations))


def _until(times_us: dict[str, int], from_us: int) -> dict[str, int]:
    return {destination: time_us for destination, time_us in times_us.items() if time_us >= from_us}
