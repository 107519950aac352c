"""Announces this process's commits to the others, after the commits and on another connection: NOTIFY in the
transaction would hold a lock of the whole database during the fsync. The announcer's connection does not wait
for the disk. A lost announcement shows in the counts of commits (`CommitCounts` in `listening.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from typing import Any, NamedTuple

import orjson
import structlog

from bridge_server.kernel.events import DomainEvent, EventTexts
from bridge_server.kernel.values import dataclass
from bridge_server.storage.postgres.failures import WIRE_FAILURES
from bridge_server.storage.postgres.statements import NOW_MS

CHANNEL = "bridge"
MOST_BYTES = 7_900
"""PostgreSQL refuses payloads from 8,000 bytes on."""
ANYTHING = "*"
_ANYTHING = f'"{ANYTHING}"'.encode()

_NOTIFY = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1::text[]) AS payload"  # noqa: S608 - constant
_BEAT = f"""
UPDATE processes SET seen_at_ms = {NOW_MS}
WHERE number = $1 AND seen_at_ms > 0
"""  # noqa: S608 - the time's expression

_MOST_EVENTS = 20_000
_QUIET_SECONDS = 0.25
"""Commits without events are announced this much later: only the counts of others have to follow."""
_BEAT_SECONDS = 5.0
_SHORTEST_PAUSE_MS = 2
_EXCHANGE_SECONDS = 2.0

log = structlog.get_logger()

Open = Callable[[], Awaitable[Any]]
"""Connects, and returns a connection of asyncpg."""


@dataclass(slots=True)
class _Pending:
    """The commits of a lane since the last announcement."""

    until: int
    events: dict[DomainEvent, None] = field(default_factory=dict)
    is_anything: bool = False

    def add(self, events: Sequence[DomainEvent]) -> None:
        self.events.update(dict.fromkeys(events))
        if len(self.events) > _MOST_EVENTS:
            self.events, self.is_anything = {}, True


class Announcer:
    """Sends the notifications: at once after a silence, no more often than every few milliseconds."""

    def __init__(self, process: Callable[[], int], texts: EventTexts, connect: Open) -> None:
        """`process` gives the number of this process, once the database is open."""
        self._process = process
        self._texts = texts
        self._connect = connect
        self._wire: Any = None
        self._notify: Any = None
        self._announced: dict[int, int] = {}
        self._pending: dict[int, _Pending] = {}
        self._wanted = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None
        self._is_over = self._has_failed = False
        self.live_processes = 1
        self.sent = 0
        """The number of announcements since the start."""

    @asynccontextmanager
    async def announcing(self) -> AsyncIterator[None]:
        """Announce while inside; on leaving, for what was committed last."""
        task = asyncio.create_task(self._announce_until_over())
        try:
            yield
        finally:
            self._is_over = True
            self._wanted.set()
            await asyncio.wait([task], timeout=2 * _EXCHANGE_SECONDS)
            task.cancel()
            await asyncio.wait([task])
            if self._wire is not None:
                with suppress(*WIRE_FAILURES):
                    await self._wire.close(timeout=_EXCHANGE_SECONDS)

    def on_commit(self, lane: int, written: int, events: Sequence[DomainEvent]) -> None:
        """Note a commit of this process, and announce it soon."""
        carried = [event for event in events if self._texts.carries(event)]
        if not carried and written == self._announced.get(lane, 0):
            return
        pending = self._pending_of(lane)
        pending.until = written
        if carried:
            pending.add(carried)
            self._wanted.set()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._wanted.set)

    def prove(self) -> None:
        """Send a notification without events, which the `Listener` of this process is to receive."""
        self._pending_of(0)
        self._wanted.set()

    def _pending_of(self, lane: int) -> _Pending:
        if lane not in self._pending:
            self._pending[lane] = _Pending(self._announced.get(lane, 0))
        return self._pending[lane]

    async def _announce_until_over(self) -> None:
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + _BEAT_SECONDS
        while not self._is_over:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(beat_at):
                    await self._wanted.wait()
            if loop.time() >= beat_at:
                beat_at = loop.time() + _BEAT_SECONDS
                await self._attempt(lambda: self._wire.execute(_BEAT, self._process()))
            if self._wanted.is_set():
                await self._announce_now()
                await asyncio.sleep(max(_SHORTEST_PAUSE_MS, self.live_processes) / 1_000)
        await self._announce_now()

    async def _announce_now(self) -> None:
        """Announce all lanes in one exchange. A failed one is not repeated: the next one shows the gap."""
        self._wanted.clear()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        pending, self._pending = self._pending, {}
        if pending and self._process():
            payloads = [text for lane, each in pending.items() for text in self._payloads(lane, each)]
            if await self._attempt(lambda: self._notify.fetch(payloads)):
                self.sent += 1

    def _payloads(self, lane: int, pending: _Pending) -> list[str]:
        since, self._announced[lane] = self._announced.get(lane, 0), pending.until
        events = [_ANYTHING] if pending.is_anything else []
        events += map(self._written, pending.events)
        return write_announcement(self._process(), lane, since, pending.until, events)

    def _written(self, event: DomainEvent) -> bytes:
        try:
            return self._texts.write(event)
        except TypeError:  # such as a text that is no Unicode
            return _ANYTHING

    async def _attempt(self, exchange: Callable[[], Awaitable[object]]) -> bool:
        """Whether the exchange succeeded. A connection that has failed is opened anew the next time."""
        try:
            async with asyncio.timeout(_EXCHANGE_SECONDS):
                if self._wire is None or self._wire.is_closed():
                    self._wire = await self._connect()
                    self._notify = await self._wire.prepare(_NOTIFY)
                await exchange()
        except Exception as error:  # whatever it is, there is to be a next time
            if not self._has_failed:
                log.warning("bell_failed", reason=str(error) or type(error).__name__)
            self._has_failed = True
            if self._wire is not None:
                self._wire.terminate()
                self._wire = None
            return False
        self._has_failed = False
        return True


# An announcement: the events of some commits of one lane, as payloads of NOTIFY. A payload is a JSON array:
# the number of the process, the lane, its count of commits before and after, and the events. Instead of an
# event it may have "*": anything may have changed.


class UnreadableAnnouncementError(Exception):
    """The payload is no announcement: another version of the program sent it."""


class Announcement(NamedTuple):
    """The content of one payload."""

    process: int
    lane: int
    since: int
    until: int
    events: Sequence[Any]
    """The parsed events, or ANYTHING."""


def write_announcement(process: int, lane: int, since: int, until: int, events: Sequence[bytes]) -> list[str]:
    """The payloads, each with whole events. Only the last payload says that all events are there."""
    room = MOST_BYTES - len(_payload(process, lane, until, until, ()))
    parts = list(_parts([event if len(event) < room else _ANYTHING for event in events], room))
    first = [_payload(process, lane, since, since, part) for part in parts[:-1]]
    return [part.decode() for part in (*first, _payload(process, lane, since, until, parts[-1]))]


def read_announcement(payload: str) -> Announcement:
    """Raises UnreadableAnnouncementError."""
    try:
        parsed = orjson.loads(payload)
    except ValueError:
        parsed = None
    match parsed:
        case [int(process), int(lane), int(since), int(until), list(events)]:
            return Announcement(process, lane, since, until, events)
    raise UnreadableAnnouncementError


def _parts(events: Sequence[bytes], room: int) -> Iterator[Sequence[bytes]]:
    part: list[bytes] = []
    size = 0
    for event in events:
        if part and size + len(event) + 1 > room:
            yield part
            part, size = [], 0
        part.append(event)
        size += len(event) + 1
    yield part


def _payload(process: int, lane: int, since: int, until: int, events: Sequence[bytes]) -> bytes:
    return b"[%d,%d,%d,%d,[%s]]" % (process, lane, since, until, b",".join(events))
