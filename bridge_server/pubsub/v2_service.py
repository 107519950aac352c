"""All open sockets of generation 2.x, and their background work."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.frames import Frames
from bridge_server.pubsub.queues import (
    MessageCharges,
    NoticeOf,
    OpenSockets,
    QueueLimits,
    SocketLimits,
    SocketTopics,
)
from bridge_server.pubsub.v2_calls import Fetching, IrnCalls, Receipts, Resuming
from bridge_server.pubsub.v2_journal import REMEMBERED_MS, IdBlocks, IrnJournal, RememberedCalls
from bridge_server.pubsub.v2_models import ClientKey, ClientLimits, IrnMessagesStored, ReceiverCounts, Rules
from bridge_server.pubsub.v2_sockets import Attachments, IrnSocket, Sending
from bridge_server.pubsub.v2_store import IrnStore

_SWEEP_SLICE = 500
_REFILL_SECONDS = 20.0

log = structlog.get_logger()


class Irn:
    """The room's service for generation 2.x. It must be `running`."""

    def __init__(
        self,
        store: IrnStore,
        clock: Clock,
        queue: QueueLimits,
        sockets: SocketLimits,
        clients: ClientLimits,
        message_limit_bytes: int,
        open_from: Counter[str],
        counted: SocketTopics,
        charges: MessageCharges,
        events: Events,
        notice: NoticeOf,
        frames: Frames | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._queue = queue
        self._socket_limits = sockets
        self._limits = clients
        self._charges = charges
        self._notice = notice
        self._frames = frames
        self._remembered = RememberedCalls(clients)
        counts = ReceiverCounts()
        self._journal = IrnJournal(store, clock, self._remembered, self._rules, counts, charges)
        self._attachments = Attachments(counted)
        self._resuming = Resuming(store, self._journal, clock, clients)
        self._ids = IdBlocks(store)
        self._open: OpenSockets[IrnSocket] = OpenSockets(
            sockets, open_from, lambda: clients.heartbeat_seconds
        )
        self._of_client: dict[ClientKey, dict[IrnSocket, None]] = {}
        self._socket_numbers = count(1)
        self._receipts = Receipts(store, self._journal, self._ids, self._of_client, events)
        self._calls = IrnCalls(
            clock,
            self._journal,
            self._remembered,
            self._attachments,
            self._resuming,
            Fetching(store, self._journal, clock),
            self._receipts,
            self._of_client,
            counts,
            message_limit_bytes,
            is_shared=store.is_shared,
        )
        if store.is_shared:
            events.subscribe(IrnMessagesStored, self._on_stored, everywhere=True)
            events.on_gap(self._look_everywhere)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store publications, and find dead sockets, while inside."""
        if not self._store.is_shared:
            self._calls.number_after(await self._store.newest())
            self._remembered.load(await self._store.calls(self._clock.now_ms()))
        await self._ids.refill()
        async with (
            self._journal.running(),
            running(self._open.ping_forever()),
            running(self._refill_forever()),
            running(self._receipts.answer_forever()),
        ):
            yield

    @property
    def sockets(self) -> int:
        """The number of open sockets."""
        return len(self._open)

    @property
    def topics(self) -> int:
        """The number of topics of open sockets."""
        return len(self._attachments)

    def welcome(self, client: ClientKey, address: str | None) -> IrnSocket:
        """A socket of this client, which must leave. Raises TooManySocketsError, UnavailableError."""
        self._open.require_place(address)
        sending = Sending(
            client,
            address,
            self._attachments,
            self._journal,
            self._store,
            self._ids,
            self._clock,
            self._queue.topic,
            self._socket_limits.unacknowledged,
        )
        socket = IrnSocket(
            next(self._socket_numbers),
            address,
            client,
            sending,
            self._calls.perform,
            self._calls.price,
            self._charges,
            self._journal.caught_up,
            self._begin,
            self._forget,
            self._frames,
        )
        self._open.add(socket)
        return socket

    def close(self) -> None:
        """End every socket, and from now on any that opens: the server stops."""
        self._journal.hurry()
        self._open.close()

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """End every socket and store what is on its way, so that the database can be emptied inside."""
        self._open.end_all()
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
                attachment.look(attachment)

    def _look_everywhere(self) -> None:
        """Other processes may have stored messages for any client."""
        for attachment in self._attachments.all():
            attachment.look(attachment)

    def _begin(self, socket: IrnSocket) -> None:
        self._of_client.setdefault(socket.client, {})[socket] = None
        self._resuming.begin(socket)

    def _forget(self, socket: IrnSocket) -> None:
        if not self._open.forget(socket):
            return
        self._resuming.stop(socket)
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
            self._queue,
            self._limits,
            now_ms + REMEMBERED_MS,
            self._notice,
            self._store.subscribers,
            self._store.is_shared,
        )
