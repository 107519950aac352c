"""The calls of clients of generation 2.x: publish, subscribe, unsubscribe, fetch, acknowledge."""

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.pubsub.irn import wire
from bridge_server.pubsub.irn.attachments import Attachments
from bridge_server.pubsub.irn.errors import MessageTooLargeError, TooManySubscriptionsError
from bridge_server.pubsub.irn.fetching import Fetching
from bridge_server.pubsub.irn.journal import IrnJournal
from bridge_server.pubsub.irn.models import (
    ClientKey,
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
from bridge_server.pubsub.irn.receipts import Receipts
from bridge_server.pubsub.irn.remembered import RememberedCalls, call_key
from bridge_server.pubsub.irn.resuming import Resuming
from bridge_server.pubsub.irn.socket import IrnSocket
from bridge_server.topics.models import Topic

_TRUE = b"true"
_FIRST_PROVISIONAL = -(2**62)
"""A shared database numbers messages; until then they have negative numbers, as no stored one has."""


class IrnCalls:
    """`of_client` are the open sockets of each client. Where the database `is_shared` with other processes,
    receivers are sent messages once these are on disk.
    """

    def __init__(
        self,
        clock: Clock,
        journal: IrnJournal,
        remembered: RememberedCalls,
        attachments: Attachments,
        resuming: Resuming,
        fetching: Fetching,
        receipts: Receipts,
        of_client: Mapping[ClientKey, Mapping[IrnSocket, None]],
        message_limit_bytes: int,
        *,
        is_shared: bool,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._remembered = remembered
        self._attachments = attachments
        self._resuming = resuming
        self._fetching = fetching
        self._receipts = receipts
        self._of_client = of_client
        self._message_limit_bytes = message_limit_bytes
        self._is_shared = is_shared
        self._last_number = _FIRST_PROVISIONAL

    def number_after(self, newest: int) -> None:
        """Give later messages greater numbers than this one."""
        self._last_number = newest

    def perform(self, socket: IrnSocket, id_text: bytes, call: IrnCall) -> Awaitable[None] | None:
        """Perform a client's call; its next frame waits for the awaitable that is returned."""
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
        socket.sending.answers.has_asked()
        if self._remembered.repeats(key, done, now_ms):
            return
        if not self._is_shared:
            is_sure = len(envelopes) == 1 and call.subscribes is None and not socket.is_doubtful
            self._offer(socket, envelopes, is_sure)
        self._remembered.begin(key, done)
        self._journal.submit(Publishing(socket.client, socket.address, key, envelopes, call.subscribes))

    def _offer(self, socket: IrnSocket, envelopes: Sequence[Envelope], is_sure: bool) -> None:
        for envelope in envelopes:
            for attachment in self._attachments.of(envelope.topic):
                if attachment.client != socket.client:
                    attachment.offer(attachment, envelope, is_sure)

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
        socket.sending.answers.has_answer()
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
        await self._receipts.take(socket.client, call.receipts)
        socket.answer(wire.write_result(id_text, _TRUE))
