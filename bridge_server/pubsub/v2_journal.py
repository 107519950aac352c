"""Changes of generation 2.x on their way to the disk: those that have come together, in transactions of some
2,000 rows.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import TypeAlias
from zlib import crc32

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.queues import MessageCharges, until_done
from bridge_server.pubsub.v2_models import (
    Applied,
    Change,
    ClientKey,
    ClientLimits,
    Done,
    Publication,
    Publishing,
    ReceiverCounts,
    Rules,
)
from bridge_server.pubsub.v2_store import IrnStore

# Publications that are known again when a client repeats them: idempotency keys of five minutes.

REMEMBERED_MS = 300_000


def call_key(client: ClientKey, id_text: bytes, publications: Iterable[Publication]) -> str:
    """The key of a call, by which a repetition is recognised: client, id and content.

    The end of a public key identifies the client: nobody can choose another client's. A checksum identifies
    the content: a collision harms only the client that makes it.
    """
    checksum = 0
    for each in publications:
        checksum = crc32(f"{each.topic}{each.message}".encode(), checksum)
    request_id = id_text.decode().strip('"')
    return f"{client[-16:]} {request_id} {checksum}"


class RememberedCalls:
    """The calls of the last minutes, stored or about to be stored, so that a repetition is recognised."""

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self._expires_at_ms: dict[str, int] = {}
        self._oldest_first: deque[str] = deque()  # takes half the time of an OrderedDict
        self._under_way: dict[str, list[Done]] = {}
        self._forgotten = 0

    def load(self, calls: Iterable[tuple[str, int]]) -> None:
        """Take over the calls on disk."""
        self._expires_at_ms.update(calls)
        self._oldest_first.extend(self._expires_at_ms)

    def clear(self) -> None:
        """Forget every call that is on disk."""
        self._expires_at_ms.clear()
        self._oldest_first.clear()

    def begin(self, call: str, done: Done, now_ms: int) -> bool:
        """Whether the call is new, and remembered now. Otherwise `done` is called, at once or with it."""
        waiting = self._under_way.get(call)
        if waiting is not None:
            waiting.append(done)
            return False
        expires_at_ms = self._expires_at_ms.get(call)
        if expires_at_ms is not None:
            if expires_at_ms > now_ms:
                done(None)
                return False
            self.forget_old(now_ms)
        self._under_way[call] = [done]
        return True

    def end(self, call: str, refused: BridgeError | None, now_ms: int) -> None:
        """Answer a call that is on disk or was refused, as often as it was made."""
        waiting = self._under_way.pop(call)
        if refused is None:
            self._expires_at_ms[call] = now_ms + REMEMBERED_MS
            self._oldest_first.append(call)
        for done in waiting:
            done(refused)

    def take_forgotten(self) -> int:
        """The number of calls to delete from the disk before they expire, the oldest first."""
        forgotten, self._forgotten = self._forgotten, 0
        return forgotten

    def forget_old(self, now_ms: int) -> None:
        """Forget the calls whose time is over, and the oldest of more than may be remembered."""
        while self._oldest_first:
            expires_at_ms = self._expires_at_ms.get(self._oldest_first[0], 0)
            if expires_at_ms > now_ms and len(self._oldest_first) <= self._limits.remembered_calls:
                return
            self._expires_at_ms.pop(self._oldest_first.popleft(), None)
            self._forgotten += expires_at_ms > now_ms


_MOST_CHANGES = 1_000
_MOST_ROWS = 2_000
"""A transaction ends with the change or the acknowledgements that reach so many, and others write."""
_MOST_UNSAVED_ROWS = 20_000
_MOST_UNSAVED_BYTES = 8 * 2**20
_PATIENCE_SECONDS = 5.0
_LAST_SECONDS = 3.0
"""A publication that is not on disk so long after the begin of a stop is refused."""
_RETRY_SECONDS = 0.25
_GRACE_SECONDS = 0.001
"""A message that its receivers acknowledge so soon is never stored."""
_BUSY_GRACE_SECONDS = 0.005
_BUSY_CHANGES = 8
"""After a commit of so many changes the next one waits longer: a commit costs the same for more of them."""

log = structlog.get_logger()

RulesNow: TypeAlias = Callable[[], Rules]
_Received: TypeAlias = defaultdict[tuple[ClientKey, Topic], list[int]]


class IrnJournal:
    """Changes on their way to the disk. It must be `running`. Clients repeat failed calls every few
    seconds: a database that cannot serve is tried again for a while first.
    """

    def __init__(
        self,
        store: IrnStore,
        clock: Clock,
        calls: RememberedCalls,
        rules: RulesNow,
        counts: ReceiverCounts,
        charges: MessageCharges,
    ) -> None:
        self.store = store
        self.clock = clock
        self.remembered = calls
        self._rules = rules
        self.counts = counts
        self._charges = charges
        self._changes: list[Change] = []
        self._received: _Received = defaultdict(list)
        self._unsaved: dict[int, Publication] = {}
        self._unsaved_bytes = self._unsaved_rows = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()
        self._is_writing = self._is_closed = self._is_busy = False
        self._ends_at = inf
        """The time of the event loop from which everything is refused."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while inside, and the rest on leaving."""
        writing = asyncio.create_task(self._write_until_closed())
        try:
            yield
        finally:
            self._is_closed = True
            self.hurry()
            self._wanted.set()
            await writing

    def hurry(self) -> None:
        """Write for a while yet, and then refuse what is left: the server stops."""
        self._ends_at = min(self._ends_at, asyncio.get_running_loop().time() + _LAST_SECONDS)

    def submit(self, change: Change) -> None:
        """Store the change, and say when it is done."""
        if not self._changes:
            self._wanted.set()
        self._changes.append(change)
        if isinstance(change, Publishing):
            self._unsaved_rows += len(change.publications)
            for publication in change.publications:
                self._unsaved[publication.number] = publication
                self._unsaved_bytes += len(publication.data)
                publication.message = ""  # a part of the data
        else:
            self._unsaved_rows += len(change.topics)

    def acknowledge(self, client: ClientKey, topic: Topic, number: int) -> None:
        """Note that the client has received the message with this number."""
        publication = self._unsaved.get(number)
        if publication is not None:
            publication.acknowledged.add(client)
        else:
            self._received[client, topic].append(number)
            self._wanted.set()

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsaved that a client that wants more is to wait."""
        return (
            len(self._changes) >= _MOST_CHANGES
            or self._unsaved_rows >= _MOST_UNSAVED_ROWS
            or self._unsaved_bytes >= _MOST_UNSAVED_BYTES
        )

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk, or were refused. Raises UnavailableError."""
        if self._is_writing or self._has_work():
            await until_done(self._waiting, self._wanted, 2 * _PATIENCE_SECONDS, "stored")

    def _has_work(self) -> bool:
        return bool(self._changes or self._received)

    async def _write_until_closed(self) -> None:
        while not self._is_closed or self._has_work() or self._waiting:
            await self._wanted.wait()
            self._wanted.clear()
            if not self._is_closed:
                await asyncio.sleep(_BUSY_GRACE_SECONDS if self._is_busy else _GRACE_SECONDS)
            if self._has_work() or self._waiting:
                await self._write()

    async def _write(self) -> None:
        """Write all changes that there are now, in their order; then tell those that wait for them."""
        changes, received, waiting = self._changes, self._received, self._waiting
        self._changes, self._received, self._waiting = [], defaultdict(list), []
        self._is_writing, self._is_busy = True, len(changes) >= _BUSY_CHANGES
        failure: UnavailableError | None = None
        try:
            while failure is None and (changes or received):
                failure = await self._write_some(*_some(changes, received))
            if failure is not None:
                self._give_up(changes, received, failure)
        finally:
            self._is_writing = False
        for done in waiting:
            if not done.done():
                done.set_result(None) if failure is None else done.set_exception(failure)

    async def _write_some(self, changes: Sequence[Change], received: _Received) -> UnavailableError | None:
        """Write these changes in one transaction; returns why the database could not serve."""
        try:
            if asyncio.get_running_loop().time() >= self._ends_at:
                raise UnavailableError("The server stops. Connect again.")
            applied = await self._apply(changes, received)
        except UnavailableError as error:
            self._give_up(changes, received, error)
            return error
        except Exception:  # tried again it would fail again, and all that comes later with it
            log.exception("messages_lost")
            applied = Applied(dict.fromkeys(range(len(changes)), _failed()))
        self._settle(changes, applied)
        return None

    async def _apply(self, changes: Sequence[Change], received: _Received) -> Applied:
        forgotten = self.remembered.take_forgotten()
        loop = asyncio.get_running_loop()
        patient_until = min(loop.time() + _PATIENCE_SECONDS, self._ends_at)
        while True:
            try:
                return await self.store.apply(changes, forgotten, received, self._rules())
            except UnavailableError as error:
                if self._is_closed or loop.time() > patient_until:
                    raise
                log.warning("messages_not_stored", reason=error.detail, changes=len(changes))
                await asyncio.sleep(_RETRY_SECONDS)

    def _give_up(self, changes: Sequence[Change], received: _Received, error: UnavailableError) -> None:
        """Changes are refused, and acknowledgements are tried again with the next changes."""
        self._settle(changes, Applied(dict.fromkeys(range(len(changes)), error)))
        if not self._is_closed:
            for receiver, numbers in received.items():
                self._received[receiver] += numbers

    def _settle(self, changes: Sequence[Change], applied: Applied) -> None:
        now_ms = self.clock.now_ms()
        for position, change in enumerate(changes):
            refused = applied.refused.get(position)
            try:
                if isinstance(change, Publishing):
                    self._forget_saved(change, applied)
                    self.remembered.end(change.call, refused, now_ms)
                else:
                    self._unsaved_rows -= len(change.topics)
                    change.done(refused)
            except Exception:  # the other clients are to be answered all the same
                log.exception("answer_failed")
        self.remembered.forget_old(now_ms)
        self.counts.learn(applied.receivers)

    def _forget_saved(self, publishing: Publishing, applied: Applied) -> None:
        """Forget messages that are on disk, or refused, and charge for receivers that nobody knew of when the
        publication came.
        """
        receivers, kept = 0, applied.kept
        self._unsaved_rows -= len(publishing.publications)
        for publication in publishing.publications:
            del self._unsaved[publication.number]
            self._unsaved_bytes -= len(publication.data)
            receivers += applied.receivers.get(publication.topic, 0)
            for client in kept.get(publication.number, ()) if kept else ():
                if client in publication.acknowledged:
                    self.acknowledge(client, publication.topic, publication.number)
        if publishing.address is not None and receivers > publishing.charged:
            self._charges.charge_more(publishing.address, receivers - publishing.charged)


def _some(changes: list[Change], received: _Received) -> tuple[Sequence[Change], _Received]:
    """Take the first changes, and acknowledgements once there are no more changes, for one transaction."""
    count = rows = 0
    for change in changes:
        if rows >= _MOST_ROWS:
            break
        count += 1
        rows += len(change.publications if isinstance(change, Publishing) else change.topics)
    taken = changes[:count]
    del changes[:count]
    some: _Received = defaultdict(list)
    while received and rows < _MOST_ROWS:
        receiver, numbers = received.popitem()
        some[receiver] = numbers
        rows += len(numbers)
    return taken, some


def _failed() -> BridgeError:
    return UnavailableError("The server failed. Its log has the reason.")


# Ids of requests to clients: numbers from 10^9 to 2^53 that are given once in the server's life.

_FIRST, _END = 10**9, 2**53
_BLOCK_SIZE = 2**30


class IdBlocks:
    """Takes ids from blocks of the database; the next block is taken long before this one ends."""

    def __init__(self, store: IrnStore) -> None:
        self._store = store
        self._next = self._end = self._following = 0
        self._taken: list[int] = []

    async def refill(self) -> None:
        """Have at least half a block. Raises UnavailableError."""
        if not self._end:
            self._next = await self._block()
            self._end = self._next + _BLOCK_SIZE
        if not self._following and self._end - self._next < _BLOCK_SIZE // 2:
            self._following = await self._block()

    def next(self) -> int:
        """An id that no client was ever sent."""
        if self._next == self._end:
            self._next, self._following = self._following, 0
            self._end = self._next + _BLOCK_SIZE
        self._next += 1
        return self._next - 1

    def is_foreign(self, request_id: int) -> bool:
        """Whether it may be an id that another process has given."""
        if not _FIRST <= request_id < _END:
            return False
        return not any(first <= request_id < first + _BLOCK_SIZE for first in self._taken)

    async def _block(self) -> int:
        first = _FIRST + (await self._store.take_id_block() - 1) * _BLOCK_SIZE
        self._taken.append(first)
        return first
