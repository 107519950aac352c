"""All open sockets of generation 2.x, and their background work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import NamedTuple

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.queues import MessageCharges, OpenSockets, QueueLimits
from bridge_server.pubsub.v2_calls import IrnCalls, Receipts, Retrieving
from bridge_server.pubsub.v2_journal import REMEMBERED_MS, IdBlocks, IrnJournal, RememberedCalls
from bridge_server.pubsub.v2_models import ClientKey, ClientLimits, IrnMessagesStored, ReceiverCounts, Rules
from bridge_server.pubsub.v2_sockets import Attachments, IrnSocket, Sending
from bridge_server.pubsub.v2_store import IrnStore

_SWEEP_SLICE = 500
_REFILL_SECONDS = 20.0

log = structlog.get_logger()


class IrnLimits(NamedTuple):
    """The limits of topics and of clients, and the longest message in bytes."""

    queue: QueueLimits
    client: ClientLimits
    message_bytes: int


class Irn:
    """The room's service for generation 2.x. It must be `running`."""

    def __init__(
        self,
        store: IrnStore,
        clock: Clock,
        limits: IrnLimits,
        open_sockets: OpenSockets[IrnSocket],
        charges: MessageCharges,
        events: Events,
    ) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self.open = open_sockets
        self.charges = charges
        self._remembered = RememberedCalls(limits.client)
        self._journal = IrnJournal(store, clock, self._remembered, self._rules, ReceiverCounts(), charges)
        self.caught_up = self._journal.caught_up
        self._attachments = Attachments(open_sockets.shares)
        self._retrieving = Retrieving(store, self._journal, clock, limits.client)
        self._ids = IdBlocks(store)
        self._of_client: dict[ClientKey, dict[IrnSocket, None]] = {}
        self._socket_numbers = count(1)
        self._receipts = Receipts(store, self._journal, self._ids, self._of_client, events)
        self._calls = IrnCalls(
            clock, self._journal, self._attachments, self._retrieving, self._receipts, limits.message_bytes
        )
        if store.is_shared:
            events.subscribe(IrnMessagesStored, self._on_stored, everywhere=True)
            events.on_gap(self._check_everywhere)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store publications, and find dead sockets, while inside."""
        if not self._store.is_shared:
            self._calls.number_after(await self._store.newest())
            self._remembered.load(await self._store.calls(self._clock.now_ms()))
        await self._ids.refill()
        async with (
            self._journal.running(),
            running(self.open.ping_forever()),
            running(self._refill_forever()),
            running(self._receipts.answer_forever()),
        ):
            yield

    @property
    def sockets(self) -> int:
        """The number of open sockets."""
        return len(self.open)

    @property
    def topics(self) -> int:
        """The number of topics of open sockets."""
        return len(self._attachments)

    def sockets_on(self, topic: Topic) -> int:
        """The number of open sockets that are sent messages of the topic."""
        return len(self._attachments.of(topic))

    def welcome(self, client: ClientKey, address: str | None) -> IrnSocket:
        """A socket of this client, which must leave. Raises TooManySocketsError, UnavailableError."""
        self.open.require_place(address)
        sending = Sending(
            client, address, self._attachments, self._journal, self._ids, self._limits.queue.topic
        )
        socket = IrnSocket(next(self._socket_numbers), address, client, sending, self._calls, self)
        self.open.add(socket)
        return socket

    def close(self) -> None:
        """End every socket, and from now on any that opens: the server stops."""
        self._journal.hurry()
        self.open.close()

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """End every socket and store what is on its way, so that the database can be emptied inside."""
        self.open.end_all()
        await self._journal.caught_up()
        yield
        self._remembered.clear()
        self._store.subscribers.clear()

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the expired rows; returns how many."""
        return await self._store.sweep(now_ms, _SWEEP_SLICE)

    def _on_stored(self, event: IrnMessagesStored) -> None:
        for attachment in self._attachments.of(Topic(event.topic)):
            if attachment.client != event.sender:
                attachment.catch_up(attachment)

    def _check_everywhere(self) -> None:
        """Read the topics of all sockets: other processes may have stored messages for any client."""
        for attachment in self._attachments.all():
            attachment.catch_up(attachment)

    def begin(self, socket: IrnSocket) -> None:
        """Register the socket, which has opened."""
        self._of_client.setdefault(socket.client, {})[socket] = None
        self._retrieving.begin(socket)

    def forget(self, socket: IrnSocket) -> None:
        """Forget the socket, which is closed."""
        if not self.open.forget(socket):
            return
        self._retrieving.stop(socket)
        others = self._of_client.get(socket.client, {})
        others.pop(socket, None)
        if not others:
            self._of_client.pop(socket.client, None)

    async def _refill_forever(self) -> None:
        while True:
            await asyncio.sleep(_REFILL_SECONDS)
            try:
                await self._ids.refill()
            except UnavailableError as error:
                log.warning("ids_not_taken", reason=error.detail)

    def _rules(self) -> Rules:
        now_ms = self._clock.now_ms()
        return Rules(
            now_ms,
            self._limits.queue,
            self._limits.client,
            now_ms + REMEMBERED_MS,
            self._store.notice,
            self._store.subscribers,
            self._store.is_shared,
        )
