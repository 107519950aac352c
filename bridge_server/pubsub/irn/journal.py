"""Brings changes to the disk, in one transaction for all that has come together meanwhile."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.pubsub.irn.models import Change, ClientKey, Envelope, Publishing
from bridge_server.pubsub.irn.remembered import RememberedCalls
from bridge_server.pubsub.irn.rules import Applied, Rules
from bridge_server.pubsub.irn.store import IrnStore

_MOST_CHANGES = 1_000
_MOST_BYTES = 8 * 2**20
_PATIENCE_SECONDS = 5.0
_RETRY_SECONDS = 0.25
_GRACE_SECONDS = 0.001
"""A message that its receivers acknowledge so soon is never stored."""
_BUSY_GRACE_SECONDS = 0.005
_BUSY_CHANGES = 8
"""After a commit of so many changes the next one waits longer: a commit costs the same for more of them."""

log = structlog.get_logger()

RulesNow: TypeAlias = Callable[[], Rules]
_Received: TypeAlias = defaultdict[ClientKey, list[int]]


class IrnJournal:
    """Changes on their way to the disk. It must be `running`. Clients repeat failed calls every few
    seconds: a database that cannot serve is tried again for a while first.
    """

    def __init__(self, store: IrnStore, clock: Clock, calls: RememberedCalls, rules: RulesNow) -> None:
        self._store = store
        self._clock = clock
        self._calls = calls
        self._rules = rules
        self._changes: list[Change] = []
        self._received: _Received = defaultdict(list)
        self._unsaved: dict[int, Envelope] = {}
        self._unsaved_bytes = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()
        self._is_writing = self._is_closed = self._is_busy = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while inside, and the rest on leaving."""
        writing = asyncio.create_task(self._write_until_closed())
        try:
            yield
        finally:
            self._is_closed = True
            self._wanted.set()
            await writing

    def submit(self, change: Change) -> None:
        """Store the change, and say when it is done."""
        self._changes.append(change)
        if isinstance(change, Publishing):
            for envelope in change.envelopes:
                self._unsaved[envelope.number] = envelope
                self._unsaved_bytes += len(envelope.data)
        self._wanted.set()

    def acknowledge(self, client: ClientKey, numbers: Iterable[int]) -> None:
        """Note that the client has received messages with these numbers."""
        for number in numbers:
            envelope = self._unsaved.get(number)
            if envelope is not None:
                envelope.acknowledged.add(client)
            else:
                self._received[client].append(number)
                self._wanted.set()

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsaved that a client that wants more is to wait."""
        return len(self._changes) >= _MOST_CHANGES or self._unsaved_bytes >= _MOST_BYTES

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk, or were refused. Raises UnavailableError."""
        if not (self._is_writing or self._has_work()):
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._wanted.set()
        try:
            async with asyncio.timeout(2 * _PATIENCE_SECONDS):
                await done
        except TimeoutError as error:
            raise UnavailableError("Messages cannot be stored. Try again shortly.") from error

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
        """Write all changes that there are now."""
        changes, received, waiting = self._changes, self._received, self._waiting
        self._changes, self._received, self._waiting = [], defaultdict(list), []
        self._is_writing, self._is_busy = True, len(changes) >= _BUSY_CHANGES
        try:
            applied = await self._apply(changes, received)
        except UnavailableError as error:
            self._give_up(changes, received, error)
            for done in waiting:
                if not done.done():
                    done.set_exception(error)
        except Exception:  # tried again it would fail again, and all that comes later with it
            log.exception("messages_lost")
            self._settle(changes, Applied(dict.fromkeys(range(len(changes)), _failed())))
        else:
            self._settle(changes, applied)
        finally:
            self._is_writing = False
        for done in waiting:
            if not done.done():
                done.set_result(None)

    async def _apply(self, changes: Sequence[Change], received: _Received) -> Applied:
        forgotten = self._calls.take_forgotten()
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + _PATIENCE_SECONDS
        while True:
            try:
                return await self._store.apply(changes, forgotten, received, self._rules())
            except UnavailableError as error:
                if self._is_closed or loop.time() > patient_until:
                    raise
                log.warning("messages_not_stored", reason=error.detail, changes=len(changes))
                await asyncio.sleep(_RETRY_SECONDS)

    def _give_up(self, changes: Sequence[Change], received: _Received, error: UnavailableError) -> None:
        """Changes are refused, and acknowledgements are tried again with the next changes."""
        self._settle(changes, Applied(dict.fromkeys(range(len(changes)), error)))
        if not self._is_closed:
            for client, numbers in received.items():
                self._received[client] += numbers

    def _settle(self, changes: Sequence[Change], applied: Applied) -> None:
        now_ms = self._clock.now_ms()
        for position, change in enumerate(changes):
            refused = applied.refused.get(position)
            try:
                if isinstance(change, Publishing):
                    self._forget_saved(change, applied)
                    self._calls.end(change.call, refused, now_ms)
                else:
                    change.done(refused)
            except Exception:  # the other clients are to be answered all the same
                log.exception("answer_failed")
        self._calls.forget_old(now_ms)

    def _forget_saved(self, publishing: Publishing, applied: Applied) -> None:
        for envelope in publishing.envelopes:
            del self._unsaved[envelope.number]
            self._unsaved_bytes -= len(envelope.data)
            for client in applied.kept.get(envelope.number, ()):
                if client in envelope.acknowledged:
                    self.acknowledge(client, (envelope.number,))


def _failed() -> BridgeError:
    return UnavailableError("The server failed. Its log has the reason.")
