"""Leases of the outbox's destinations, in a table that all processes share.

A lease ends by the clock of the database, and for its holder earlier, by the time that has elapsed here since
before it was asked for. So a process that was frozen or cut off begins nothing that another one may send.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database import Database, Row, Statement, Transaction, Value, json_array

_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# Every statement on several rows has them in one order: no two processes can wait for each other.
_TAKE = f"""
INSERT INTO outbox_lanes (destination, owner, until_ms)
SELECT value, ?1::bigint, {_NOW} + ?2::bigint FROM json_texts(?3) ORDER BY value
ON CONFLICT (destination) DO UPDATE SET owner = excluded.owner, until_ms = excluded.until_ms
WHERE outbox_lanes.owner = excluded.owner OR outbox_lanes.until_ms <= {_NOW}
RETURNING destination
"""  # noqa: S608 - the time's expression
_OWN = """
(SELECT destination FROM outbox_lanes WHERE owner = ?1 AND destination IN (SELECT value FROM json_texts(?2))
 ORDER BY destination FOR UPDATE) AS own
"""
_RENEW = f"""
UPDATE outbox_lanes SET until_ms = {_NOW} + ?3::bigint FROM {_OWN}
WHERE outbox_lanes.destination = own.destination RETURNING outbox_lanes.destination
"""  # noqa: S608 - parts of the statement
_RELEASE = f"DELETE FROM outbox_lanes USING {_OWN} WHERE outbox_lanes.destination = own.destination"  # noqa: S608
_RELEASE_ALL = """
DELETE FROM outbox_lanes USING
    (SELECT destination FROM outbox_lanes WHERE owner = ? ORDER BY destination FOR UPDATE) AS own
WHERE outbox_lanes.destination = own.destination
"""
_FORGET_ENDED = f"""
DELETE FROM outbox_lanes USING
    (SELECT destination FROM outbox_lanes WHERE until_ms <= {_NOW} FOR UPDATE SKIP LOCKED) AS ended
WHERE outbox_lanes.destination = ended.destination
"""  # noqa: S608 - the time's expression
_ELSEWHERE = f"SELECT destination FROM outbox_lanes WHERE owner <> ? AND until_ms > {_NOW}"  # noqa: S608

_RENEWALS_PER_LEASE = 4
_IDLE_SECONDS = 1.0
_KNOWN_ELSEWHERE_US = 1_000_000
_WAS_HERE_US = 5_000_000
_TICKS_TO_RECOUNT = (4, 6)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Lease:
    tenure: int
    until_us: int


class LeasedDestinations:
    """The destinations that this process has leased for `lease_seconds`.

    A delivery takes up to `delivery_seconds`: none begins when less of the lease is left.
    """

    def __init__(
        self,
        database: Database,
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
        """Have it, by one statement with all others that are asked for meanwhile."""
        if not self.tenure(destination) and not self.is_elsewhere(destination):
            self._wanted.add(destination)
            async with self._exchange:
                if self._wanted:
                    await self._take_wanted()
        return bool(self.tenure(destination))

    async def look(self) -> None:
        rows = await self._database.read(_ELSEWHERE, (self._number(),))
        until_us = self._clock.elapsed_us() + _KNOWN_ELSEWHERE_US
        self._elsewhere_until_us = {destination: until_us for (destination,) in rows}

    def ticks_to_recount(self) -> int:
        """Another number each time, so that the processes do not look all at once."""
        return random.randint(*_TICKS_TO_RECOUNT)  # noqa: S311 - no secret

    @asynccontextmanager
    async def holding(self, in_use: Callable[[], Collection[str]]) -> AsyncIterator[None]:
        """Renew the leases of what is in use inside, and end the others; on leaving, all of them."""
        await self._run(_FORGET_ENDED)
        try:
            async with running(self._renew_forever()), running(self._release_idle_forever(in_use)):
                yield
        finally:
            self._leases.clear()
            with suppress(UnavailableError):  # they end by themselves
                await self._run(_RELEASE_ALL, self._number())

    async def _take_wanted(self) -> None:
        wanted, self._wanted = self._wanted, set()
        asked_us = self._clock.elapsed_us()
        try:
            rows = await self._run(_TAKE, self._number(), self._lease_us // 1_000, json_array(sorted(wanted)))
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
        names, lease_ms = json_array(destinations), self._lease_us // 1_000
        rows = await self._run(_RENEW, self._number(), names, lease_ms)
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
            await self._run(_RELEASE, self._number(), json_array(destinations))

    async def _run(self, sql: str, *parameters: Value) -> list[Row]:
        def work() -> Transaction[list[Row]]:
            return (yield Statement(sql, parameters))

        return await self._database.transaction(work)


def _until(times_us: dict[str, int], from_us: int) -> dict[str, int]:
    return {destination: time_us for destination, time_us in times_us.items() if time_us >= from_us}
