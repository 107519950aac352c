"""What clients of generation 2.x may ask."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.pubsub.irn import wire
from bridge_server.pubsub.irn.applying import Rules
from bridge_server.pubsub.irn.attachments import Attachments
from bridge_server.pubsub.irn.errors import MessageTooLargeError, TooManySubscriptionsError
from bridge_server.pubsub.irn.fetching import Fetching
from bridge_server.pubsub.irn.id_blocks import IdBlocks
from bridge_server.pubsub.irn.journal import IrnJournal
from bridge_server.pubsub.irn.models import (
    ClientKey,
    ClientLimits,
    Envelope,
    FetchCall,
    IrnCall,
    Publication,
    PublishCall,
    Publishing,
    ReceiveCall,
    SubscribeCall,
    Subscribing,
    SubscriptionAnswer,
    UnsubscribeCall,
    Unsubscribing,
)
from bridge_server.pubsub.irn.remembered import REMEMBERED_MS, RememberedCalls, call_key
from bridge_server.pubsub.irn.resuming import Resuming
from bridge_server.pubsub.irn.sending import Sending
from bridge_server.pubsub.irn.socket import ChargeMessages, IrnSocket
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.pubsub.queues.models import QueueLimits, SocketLimits
from bridge_server.pubsub.queues.notices import NoticeOf
from bridge_server.pubsub.queues.sockets import OpenSockets
from bridge_server.topics.models import Topic

_TRUE = b"true"
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
        charge: ChargeMessages,
        notice: NoticeOf,
    ) -> None:
        self._store = store
        self._clock = clock
        self._queue = queue
        self._socket_limits = sockets
        self._limits = clients
        self._message_limit_bytes = message_limit_bytes
        self._charge = charge
        self._notice = notice
        self._calls = RememberedCalls(clients)
        self._journal = IrnJournal(store, clock, self._calls, self._rules)
        self._attachments = Attachments()
        self._resuming = Resuming(store, self._journal, clock, clients)
        self._fetching = Fetching(store, self._journal, clock)
        self._ids = IdBlocks(store)
        self._open: OpenSockets[IrnSocket] = OpenSockets(
            sockets, open_from, lambda: clients.heartbeat_seconds
        )
        self._of_client: dict[ClientKey, dict[IrnSocket, None]] = {}
        self._socket_numbers = count(1)
        self._last_number = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store what is published, and look for dead sockets, while inside."""
        self._last_number = await self._store.newest()
        self._calls.load(await self._store.calls(self._clock.now_ms()))
        await self._ids.refill()
        async with (
            self._journal.running(),
            running(self._open.ping_forever()),
            running(self._refill_forever()),
        ):
            yield

    @property
    def sockets(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def topics(self) -> int:
        """How many an open socket is sent messages of."""
        return len(self._attachments)

    def welcome(self, client: ClientKey, address: str | None) -> IrnSocket:
        """A socket of this client, which must leave. Raises TooManySocketsError, UnavailableError."""
        self._open.require_place(address)
        sending = Sending(
            client,
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
            self._perform,
            self._charge,
            self._journal.caught_up,
            self._begin,
            self._forget,
        )
        self._open.add(socket)
        return socket

    def close(self) -> None:
        """End every socket, and from now on any that opens: the server stops."""
        self._open.close()

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """End every socket and store what is on its way, so that the database can be emptied inside."""
        self._open.end_all()
        await self._journal.caught_up()
        yield
        self._calls.clear()
        self._store.subscribers.clear()

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of what has expired; returns how many rows."""
        return await self._store.sweep(now_ms, _SWEEP_SLICE)

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
        )

    def _perform(self, socket: IrnSocket, id_text: bytes, call: IrnCall) -> Awaitable[None] | None:
        match call:
            case PublishCall():
                self._publish(socket, id_text, call)
            case SubscribeCall():
                done = partial(self._subscribed, socket, id_text, call)
                self._journal.submit(Subscribing(socket.client, socket.address, call.topics, done))
            case UnsubscribeCall():
                self._unsubscribe(socket, id_text, call.topics)
            case FetchCall():
                return self._fetching.fetch(socket, id_text, call.topics)
            case ReceiveCall():
                return self._receive(socket, id_text, call)
        return self._journal.caught_up() if self._journal.is_behind else None

    def _publish(self, socket: IrnSocket, id_text: bytes, call: PublishCall) -> None:
        now_ms = self._clock.now_ms()
        envelopes = tuple([self._envelope(socket, each, now_ms) for each in call.publications])
        key = call_key(socket.client, id_text, call)
        done = partial(self._published, socket, id_text, call.subscribes)
        socket.sending.has_asked()
        if self._calls.repeats(key, done, now_ms):
            return
        is_sure = len(envelopes) == 1 and call.subscribes is None and not socket.is_doubtful
        for envelope in envelopes:
            for attachment in self._attachments.of(envelope.topic):
                if attachment.client != socket.client:
                    attachment.offer(attachment, envelope, is_sure)
        self._calls.begin(key, done)
        self._journal.submit(Publishing(socket.client, socket.address, key, envelopes, call.subscribes))

    def _envelope(self, socket: IrnSocket, publication: Publication, now_ms: int) -> Envelope:
        data = wire.write_data(publication, now_ms)
        if len(data) > self._message_limit_bytes:
            raise MessageTooLargeError(self._message_limit_bytes)
        self._last_number += 1
        return Envelope(
            self._last_number,
            publication.topic,
            data,
            socket.client,
            socket.address,
            now_ms + publication.ttl_seconds * 1000,
            publication.prompt,
        )

    def _published(
        self, socket: IrnSocket, id_text: bytes, subscribes: Topic | None, refused: BridgeError | None
    ) -> None:
        socket.is_doubtful = refused is not None
        socket.answer_call(id_text, _TRUE, refused)
        socket.sending.has_answer()
        if refused is None and subscribes is not None:
            socket.sending.attach(subscribes)

    def _subscribed(
        self, socket: IrnSocket, id_text: bytes, call: SubscribeCall, refused: BridgeError | None
    ) -> None:
        if isinstance(refused, TooManySubscriptionsError) and call.answer is SubscriptionAnswer.RESULTS:
            results = wire.write_refused_subscriptions(call.topics, refused)
            socket.answer(wire.write_result(id_text, results))
            return
        ids = wire.write_subscriptions(call.answer, socket.client, call.topics)
        socket.answer_call(id_text, ids, refused)
        if refused is None:
            for topic in call.topics:
                socket.sending.attach(topic)

    def _unsubscribe(self, socket: IrnSocket, id_text: bytes, topics: Sequence[Topic]) -> None:
        for each in self._of_client.get(socket.client, ()):
            self._resuming.leave_out(each, topics)
            for topic in topics:
                each.sending.detach(topic)
        done = partial(socket.answer_call, id_text, _TRUE)
        self._journal.submit(Unsubscribing(socket.client, tuple(topics), done))

    async def _receive(self, socket: IrnSocket, id_text: bytes, call: ReceiveCall) -> None:
        for topic, request_id in call.receipts:
            any(each.sending.confirm(request_id, topic) for each in self._of_client.get(socket.client, ()))
        await self._journal.caught_up()
        socket.answer(wire.write_result(id_text, _TRUE))
