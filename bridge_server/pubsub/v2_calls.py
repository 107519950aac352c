"""The calls of clients of generation 2.x: publish, subscribe, unsubscribe, fetch, acknowledge."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub import v2_wire
from bridge_server.pubsub.frames import Frames, short_topics
from bridge_server.pubsub.queues import TooManyAddressTopicsError
from bridge_server.pubsub.v2_journal import IdBlocks, IrnJournal, call_key
from bridge_server.pubsub.v2_models import (
    ClientKey,
    ClientLimits,
    ClientRequest,
    Done,
    FetchCall,
    IrnCall,
    IrnReceiptsGiven,
    IrnReceiptsStored,
    MessageTooLargeError,
    Publication,
    Publishing,
    Receipt,
    ReceiveCall,
    SubscribeCall,
    Subscribing,
    SubscriptionAnswer,
    TooManySubscriptionsError,
    TooManyTopicClientsError,
    UnsubscribeCall,
    Unsubscribing,
)
from bridge_server.pubsub.v2_sockets import Attachments, IrnSocket
from bridge_server.pubsub.v2_store import IrnStore

# Acknowledgements by a call: of messages that were sent over any socket of the client, at any process.
#
# Only the process that has sent a message knows which one the id of its request stands for. So a process asks
# the others about ids that are not its own, by an event, and they say by another which of them are on disk.

_ATTEMPTS = 2
"""The first question may be lost, as any event."""
_ANSWER_SECONDS = 1.0
_MOST_IN_AN_EVENT = 300


class _Question:
    """Ids that other processes are asked about."""

    def __init__(self, request_ids: set[int]) -> None:
        self.left = request_ids
        self.is_answered = asyncio.Event()

    def settle(self, request_ids: Sequence[int]) -> None:
        self.left.difference_update(request_ids)
        if not self.left:
            self.is_answered.set()


class Receipts:
    """`of_client` are the open sockets of each client in this process."""

    def __init__(
        self,
        store: IrnStore,
        journal: IrnJournal,
        ids: IdBlocks,
        of_client: Mapping[ClientKey, Mapping[IrnSocket, None]],
        events: Events,
    ) -> None:
        self._store = store
        self._journal = journal
        self._ids = ids
        self.of_client = of_client
        self._questions: dict[_Question, None] = {}
        self._found: list[IrnReceiptsStored] = []
        self._something_found = asyncio.Event()
        if store.is_shared:
            events.subscribe_elsewhere(IrnReceiptsGiven, self._on_given)
            events.subscribe_elsewhere(IrnReceiptsStored, self._on_stored)

    async def take(self, client: ClientKey, receipts: Sequence[Receipt]) -> None:
        """Return once the acknowledgements of open sockets are on disk. Raises UnavailableError."""
        unknown = [each for each in receipts if not self._confirm(client, each.topic, each.request_id)]
        await self._journal.caught_up()
        if self._store.is_shared:
            await self._ask_others(
                client, [each for each in unknown if self._ids.is_foreign(each.request_id)]
            )

    async def answer_forever(self) -> None:
        """Answer the questions of other processes."""
        while self._store.is_shared:
            await self._something_found.wait()
            self._something_found.clear()
            found, self._found = self._found, []
            with suppress(UnavailableError):
                await self._journal.caught_up()
                await self._store.announce(found)

    def _confirm(self, client: ClientKey, topic: Topic, request_id: int) -> bool:
        confirmed = v2_wire.CONFIRMED % (b"%d" % request_id)
        return any(each.sending.confirm(confirmed, topic) for each in self.of_client.get(client, ()))

    async def _ask_others(self, client: ClientKey, receipts: Sequence[Receipt]) -> None:
        """Return once the others have stored all of it, or none of them says so in time."""
        if not receipts:
            return
        question = _Question({each.request_id for each in receipts})
        self._questions[question] = None
        try:
            for _ in range(_ATTEMPTS):
                await self._store.announce(list(_given(client, receipts)))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        await question.is_answered.wait()
                        return
        finally:
            del self._questions[question]

    def _on_given(self, event: IrnReceiptsGiven) -> None:
        client, topic = ClientKey(event.client), Topic(event.topic)
        found = tuple(each for each in event.request_ids if self._confirm(client, topic, each))
        if found:
            self._found.append(IrnReceiptsStored(found))
            self._something_found.set()

    def _on_stored(self, event: IrnReceiptsStored) -> None:
        for question in self._questions:
            question.settle(event.request_ids)


def _given(client: ClientKey, receipts: Sequence[Receipt]) -> Iterator[IrnReceiptsGiven]:
    """The events, each small enough to be carried."""
    by_topic: defaultdict[Topic, list[int]] = defaultdict(list)
    for topic, request_id in receipts:
        by_topic[topic].append(request_id)
    for topic, ids in by_topic.items():
        for first in range(0, len(ids), _MOST_IN_AN_EVENT):
            yield IrnReceiptsGiven(client, topic, tuple(ids[first : first + _MOST_IN_AN_EVENT]))


# Messages that wait on disk: a client that connects again is sent them, also on topics that it does not name
# again; others are fetched.

_MOST_FETCHED = 500
_MOST_FETCHED_BYTES = 256 * 1024

RESUME_SECONDS = 1.0
"""The time for a client to subscribe anew. Sooner, some JavaScript clients would acknowledge a message of a
topic that they have not subscribed to yet, and drop it.
"""


class Retrieving:
    """Sends clients what waits for them: when they connect again, and when they fetch it."""

    def __init__(self, store: IrnStore, journal: IrnJournal, clock: Clock, limits: ClientLimits) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._timers: dict[IrnSocket, asyncio.TimerHandle] = {}
        self._tasks: dict[IrnSocket, asyncio.Task[None]] = {}
        self._ended: dict[IrnSocket, set[Topic]] = {}

    def begin(self, socket: IrnSocket) -> None:
        """Begin to wait for the client's subscriptions: its socket has opened."""
        loop = asyncio.get_running_loop()
        self._ended[socket] = set()
        self._timers[socket] = loop.call_later(RESUME_SECONDS, self._start, socket)

    def leave_out(self, socket: IrnSocket, topics: Iterable[Topic]) -> None:
        """Leave out a topic from which the client has unsubscribed."""
        if socket in self._ended:
            self._ended[socket].update(topics)

    def stop(self, socket: IrnSocket) -> None:
        """Stop: the socket is closed."""
        self._ended.pop(socket, None)
        timer, task = self._timers.pop(socket, None), self._tasks.pop(socket, None)
        if timer is not None:
            timer.cancel()
        if task is not None:
            task.cancel()

    async def fetch(self, socket: IrnSocket, id_text: bytes, topics: Sequence[Topic]) -> None:
        """Answer with the messages that wait for the client on these topics. They count as delivered once the
        answer is written. Raises UnavailableError.
        """
        await self._journal.caught_up()
        found = await self._store.fetchable(socket.client, topics, self._clock.now_ms(), _MOST_FETCHED + 1)
        chosen = _first_of(found)
        messages = await self._store.by_numbers(chosen)
        socket.answer(id_text, v2_wire.write_fetched(messages, len(chosen) < len(found)))
        if await socket.has_written():
            for message in messages:
                self._journal.acknowledge(socket.client, message.topic, message.number)

    def _start(self, socket: IrnSocket) -> None:
        del self._timers[socket]
        self._tasks[socket] = asyncio.create_task(self._resume(socket))

    async def _resume(self, socket: IrnSocket) -> None:
        try:
            await self._attach_all(socket)
        except UnavailableError:  # the client subscribes anew when it connects the next time
            pass
        finally:
            self._ended.pop(socket, None)
            self._tasks.pop(socket, None)

    async def _attach_all(self, socket: IrnSocket) -> None:
        await self._journal.caught_up()
        now_ms = self._clock.now_ms()
        found = await self._store.subscriptions(socket.client, now_ms)
        left = {topic: expires for topic, expires in found.items() if topic not in self._ended[socket]}
        for topic in left:
            socket.sending.attach(topic)
        old = tuple(topic for topic, expires in left.items() if self._limits.is_renewed(expires, now_ms))
        if old:
            self._journal.submit(Subscribing(socket.client, socket.address, old, done=lambda refused: None))


def _first_of(found: Sequence[tuple[int, int]]) -> list[int]:
    """The messages of one answer, up to its limit of bytes; a larger message is answered alone."""
    chosen: list[int] = []
    size_bytes = 0
    for number, each_bytes in found[:_MOST_FETCHED]:
        size_bytes += each_bytes
        if chosen and size_bytes > _MOST_FETCHED_BYTES:
            break
        chosen.append(number)
    return chosen


# The calls of a client, each of which is answered once what it changes is on disk.

_TOPICS_FOR_A_MESSAGE = 25
_FIRST_PROVISIONAL = -(2**62)
"""A shared database numbers messages; until then they have negative numbers, as no stored one has."""


class IrnCalls:
    """Performs the calls of clients: publications, subscriptions, fetches, receipts.

    Where the database is shared with other processes, receivers are sent messages once these are on disk.
    """

    def __init__(
        self,
        clock: Clock,
        journal: IrnJournal,
        attachments: Attachments,
        retrieving: Retrieving,
        receipts: Receipts,
        message_limit_bytes: int,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._remembered = journal.remembered
        self._counts = journal.counts
        self._is_shared = journal.store.is_shared
        self._attachments = attachments
        self._retrieving = retrieving
        self._receipts = receipts
        self._of_client = receipts.of_client
        self._message_limit_bytes = message_limit_bytes
        self._last_number = _FIRST_PROVISIONAL

    def number_after(self, newest: int) -> None:
        """Give later messages greater numbers than this one.

        Most numbers are in memory only. This call alone keeps those of a new process above all on disk.
        """
        self._last_number = newest

    def price(self, call: IrnCall) -> int:
        """The price in messages: one a known receiver of a publication, or one for 25 topics or receipts."""
        if isinstance(call, Publishing):
            return self._counts.of_all(call.publications)
        return -(
            -len(call.receipts if isinstance(call, ReceiveCall) else call.topics) // _TOPICS_FOR_A_MESSAGE
        )

    def perform(
        self, socket: IrnSocket, request: ClientRequest, call: IrnCall, paid: int
    ) -> Awaitable[None] | None:
        """Perform a call, for which the client's address has `paid` so many messages. The client's next frame
        waits for the awaitable that is returned.
        """
        if isinstance(call, Publishing):  # a pattern of `match` takes ten times as long
            is_priced = socket.address is None or self._counts.has_all(call.publications)
            self._publish(socket, request, call, paid)
            if not is_priced:  # its next frame is heard once the receivers have been counted, and charged
                return self._until_stored()
        elif isinstance(call, SubscribeCall):
            self._subscribe(socket, request, call)
        elif isinstance(call, UnsubscribeCall):
            self._unsubscribe(socket, request, call.topics)
        elif isinstance(call, FetchCall):
            return self._retrieving.fetch(socket, request.id_text, call.topics)
        else:
            return self._receive(socket, request.id_text, call)
        return self._until_stored() if self._journal.is_behind else None

    async def _until_stored(self) -> None:
        with suppress(UnavailableError):  # which each call is answered with
            await self._journal.caught_up()

    def _publish(self, socket: IrnSocket, request: ClientRequest, call: Publishing, paid: int) -> None:
        if call.subscribes is not None:
            socket.sending.require_room((call.subscribes,))
        now_ms, publications, id_text = self._clock.now_ms(), call.publications, request.id_text
        for publication in publications:
            self._prepare(publication, socket, now_ms)
        call.client, call.address, call.charged = socket.client, socket.address, paid
        call.call = key = call_key(socket.client, id_text, publications)

        done: Done = partial(socket.published, id_text, call.subscribes)
        if socket.frames is not None:
            done = socket.frames.following(request.method, self._in_words(socket, call, socket.frames), done)
        socket.sending.answers.pending += 1
        if not self._remembered.begin(key, done, now_ms):
            return
        self._journal.submit(call)
        if not self._is_shared:
            is_sure = len(publications) == 1 and call.subscribes is None and not socket.is_doubtful
            self._offer(socket, publications, is_sure)

    def _in_words(self, socket: IrnSocket, call: Publishing, frames: Frames) -> str:
        """The message that a call publishes, and whether it has a receiver."""
        publications = call.publications
        topics = [each.topic for each in publications]
        if not topics:
            return "no message"
        has_receiver = any(
            each.client != socket.client for topic in topics for each in self._attachments.of(topic)
        )
        size = sum(len(each.message) for each in publications)
        what = f"tag {publications[0].tag}" if len(topics) == 1 else f"{len(topics)} messages"
        return f"{what}, {size} B to {short_topics(topics)}: {frames.outcome(has_receiver=has_receiver)}"

    def _offer(self, socket: IrnSocket, publications: Sequence[Publication], is_sure: bool) -> None:
        for publication in publications:
            for attachment in self._attachments.of(publication.topic):
                if attachment.client != socket.client:
                    attachment.offer(attachment, publication, is_sure)

    def _prepare(self, publication: Publication, socket: IrnSocket, now_ms: int) -> None:
        publication.data = v2_wire.write_data(publication, now_ms)
        if len(publication.data) > self._message_limit_bytes:
            raise MessageTooLargeError(self._message_limit_bytes)
        self._last_number += 1
        publication.number = self._last_number
        publication.sender, publication.address = socket.client, socket.address
        publication.expires_at_ms = now_ms + publication.ttl_seconds * 1000

    def _subscribe(self, socket: IrnSocket, request: ClientRequest, call: SubscribeCall) -> None:
        done: Done = partial(self._subscribed, socket, request.id_text, call)
        if socket.frames is not None:
            done = socket.frames.following(request.method, short_topics(call.topics), done)
        try:
            socket.sending.require_room(call.topics)
        except TooManyAddressTopicsError as error:
            done(error)
        else:
            self._journal.submit(Subscribing(socket.client, socket.address, call.topics, done))

    def _subscribed(
        self, socket: IrnSocket, id_text: bytes, call: SubscribeCall, refused: BridgeError | None
    ) -> None:
        is_limit = isinstance(
            refused, TooManySubscriptionsError | TooManyTopicClientsError | TooManyAddressTopicsError
        )
        if refused is not None and is_limit and call.answer is SubscriptionAnswer.RESULTS:
            results = v2_wire.write_refused_subscriptions(call.topics, refused)
            socket.answer(id_text, results)
            return
        ids = v2_wire.write_subscriptions(call.answer, socket.client, call.topics)
        socket.answer(id_text, ids, refused)
        if refused is None:
            for topic in call.topics:
                socket.sending.attach(topic)

    def _unsubscribe(self, socket: IrnSocket, request: ClientRequest, topics: Sequence[Topic]) -> None:
        for each in self._of_client.get(socket.client, ()):
            self._retrieving.leave_out(each, topics)
        self._detach(socket.client, topics)
        done: Done = partial(self._unsubscribed, socket, request.id_text, topics)
        if socket.frames is not None:
            done = socket.frames.following(request.method, short_topics(topics), done)
        self._journal.submit(Unsubscribing(socket.client, tuple(topics), done))

    def _unsubscribed(
        self, socket: IrnSocket, id_text: bytes, topics: Sequence[Topic], refused: BridgeError | None
    ) -> None:
        if refused is None:  # an earlier subscription may have attached it since; a later one has not yet
            self._detach(socket.client, topics)
        socket.answer(id_text, refused=refused)

    def _detach(self, client: ClientKey, topics: Sequence[Topic]) -> None:
        for each in self._of_client.get(client, ()):
            for topic in topics:
                each.sending.detach(topic)

    async def _receive(self, socket: IrnSocket, id_text: bytes, call: ReceiveCall) -> None:
        await self._receipts.take(socket.client, call.receipts)
        socket.answer(id_text)
