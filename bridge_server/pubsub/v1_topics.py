"""Publishing, subscribing, settling: the rules of the room (its package says when a message is dropped). A
message without a receiver is stored at once, one that was sent to an open socket only if it is not settled
soon: most are, and never touch the disk.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeAlias, TypeVar

import structlog

from bridge_server.kernel.background import KeyedLock, running, settle
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.events import Events
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub import v1_store
from bridge_server.pubsub.queues import QueueFullError, QueueLimits, Share, until_done
from bridge_server.pubsub.v1_store import Journal, Message, MessagesStored, Publish, TopicStore
from bridge_server.web.sockets import text_frame


class Receiver(Protocol):
    """A socket that messages are sent to."""

    @property
    def number(self) -> int:
        """A unique number of the socket, in this process and in earlier ones."""

    def send(self, message: Message, frame: bytes) -> None:
        """Send a message, which is then to be acknowledged."""

    async def drain(self) -> None:
        """Wait while too much is unsent."""


class SubscribedTopic:
    """A topic with a subscriber in this process."""

    __slots__ = ("joining", "receivers")

    def __init__(self) -> None:
        self.receivers: dict[Receiver, int] = {}
        """The receivers, each with the number of the last message that it had read when it joined."""
        self.joining: set[Receiver] = set()

    @property
    def is_deserted(self) -> bool:
        """Whether no receiver is subscribed or joining."""
        return not self.receivers and not self.joining

    def join(self, receiver: Receiver, position: int) -> None:
        """Add a joining receiver that has been sent everything up to this number, unless it has left."""
        if receiver in self.joining:
            self.receivers[receiver] = position


class LiveTopic(SubscribedTopic):
    """The messages that are not settled. Once `is_loaded`, these are all that there are."""

    __slots__ = ("_kept", "_messages", "_size_bytes", "is_loaded")

    def __init__(self) -> None:
        super().__init__()
        self.is_loaded = False
        self._messages: dict[int, Message] = {}
        self._kept: set[int] = set()
        self._size_bytes = 0

    def load(self, stored: Iterable[Message]) -> None:
        """Add the stored messages, before messages that have come in the meantime."""
        on_disk = {message.number: message for message in stored}
        self._messages = on_disk | self._messages
        self._kept |= on_disk.keys()
        self._size_bytes = sum(len(message.text) for message in self._messages.values())
        self.is_loaded = True

    def add(self, message: Message, share: Share, now_ms: int) -> None:
        """Add a message. Raises QueueFullError."""
        size_bytes = len(message.text)
        if len(self._messages) >= share.messages or self._size_bytes + size_bytes > share.size_bytes:
            for expired in [each for each in self._messages.values() if each.expires_at_ms <= now_ms]:
                self.remove(expired.number)
            if len(self._messages) >= share.messages or self._size_bytes + size_bytes > share.size_bytes:
                raise QueueFullError("the topic")
        self._messages[message.number] = message
        self._size_bytes += size_bytes

    def remove(self, number: int) -> Message | None:
        """Forget a message; returns it if it had been kept until now, and is to be deleted."""
        message = self._messages.pop(number, None)
        if message is None:
            return None
        self._size_bytes -= len(message.text)
        if number not in self._kept:
            return None
        self._kept.remove(number)
        return message

    def to_keep(self, up_to: int) -> list[Message]:
        """The messages up to this number that are not kept yet. They count as kept from now on."""
        messages = [
            message
            for number, message in self._messages.items()
            if number <= up_to and number not in self._kept
        ]
        self._kept.update(message.number for message in messages)
        return messages

    @property
    def has_more_to_keep(self) -> bool:
        """Whether there are messages that are not kept."""
        return len(self._kept) < len(self._messages)

    def missed(self, receiver: Receiver, position: int, now_ms: int) -> Iterator[Message]:
        """The messages after `position`, oldest first, without the receiver's own."""
        for message in list(self._messages.values()):
            is_meant = message.number > position and message.sender != receiver.number
            if is_meant and message.number in self._messages and message.expires_at_ms > now_ms:
                yield message


AnyTopic = TypeVar("AnyTopic", bound=SubscribedTopic)


class _Subscriptions(ABC, Generic[AnyTopic]):
    """The topics with a subscriber in this process."""

    make_topic: type[AnyTopic]

    def __init__(self, store: TopicStore, journal: Journal, clock: Clock, limits: QueueLimits) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._live: dict[Topic, AnyTopic] = {}

    def __len__(self) -> int:
        return len(self._live)

    async def subscribe(self, receiver: Receiver, topic: Topic) -> None:
        """Send the receiver the topic's messages, and each new one from then on. Raises UnavailableError."""
        live = self._live.get(topic)
        if live is None:
            live = self._live[topic] = self.make_topic()
        live.joining.add(receiver)
        try:
            live.join(receiver, await self._catch_up(topic, live, receiver))
        finally:
            live.joining.discard(receiver)
            self._forget_if_deserted(topic, live)

    def unsubscribe(self, receiver: Receiver, topic: Topic) -> None:
        """Send the receiver, which has joined or is joining, nothing more of the topic."""
        live = self._live[topic]
        live.joining.discard(receiver)
        live.receivers.pop(receiver, None)
        self._forget_if_deserted(topic, live)

    @abstractmethod
    async def _catch_up(self, topic: Topic, live: AnyTopic, receiver: Receiver) -> int:
        """Send what waits, until none came meanwhile; returns the last number. Raises UnavailableError."""

    def _forget_if_deserted(self, topic: Topic, live: AnyTopic) -> None:
        if live.is_deserted and self._live.get(topic) is live:
            del self._live[topic]


GRACE_SECONDS = 0.05
"""A message that is not settled is stored after once to twice this time."""


class Topics(_Subscriptions[LiveTopic]):
    """The topics with a subscriber, in memory. A topic without one is only on disk."""

    make_topic = LiveTopic

    def __init__(self, store: TopicStore, journal: Journal, clock: Clock, limits: QueueLimits) -> None:
        super().__init__(store, journal, clock, limits)
        self._turns = KeyedLock()
        self._last_number = 0
        self._number_at_tick = 0
        self._unkept: dict[LiveTopic, None] = {}
        self._tick: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Continue the message numbers of the previous process; on leaving, store what is not settled."""
        self._last_number = self._number_at_tick = await self._store.newest()
        try:
            yield
        finally:
            self._keep_all()

    def publish(self, sender: int, address: str | None, published: Publish) -> bool:
        """Send the message to all other receivers, and keep it until it is settled; returns whether there
        was one. Raises QueueFullError; for a topic without a subscriber, only the journal finds this out.
        """
        now_ms = self._clock.now_ms()
        frame = v1_store.write_message(published)
        expires_at_ms = now_ms + self._limits.lifetime_ms
        message = Message(self._last_number + 1, published.topic, frame, sender, address, expires_at_ms)
        live, is_sent = self._live.get(published.topic), False
        if live is None:
            self._journal.keep(message)
        else:
            live.add(message, self._limits.topic, now_ms)
            is_sent = self._send(live, message)
        self._last_number = message.number
        if not published.silent:
            self._journal.announce(message)
        return is_sent

    def settle(self, topic: Topic, number: int) -> None:
        """Drop the message of this number, which has arrived, unless it is dropped already."""
        live = self._live.get(topic)
        if live is not None and (kept := live.remove(number)) is not None:
            self._journal.settle(kept)

    def refuse(self, message: Message) -> None:
        """Forget a message that the journal refused."""
        live = self._live.get(message.topic)
        if live is not None:
            live.remove(message.number)

    def _keep_all(self) -> None:
        for live in self._unkept:
            self._keep(live, self._last_number)
        self._unkept.clear()

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk. Raises UnavailableError."""
        self._keep_all()
        await self._journal.caught_up()

    def _send(self, live: LiveTopic, message: Message) -> bool:
        frame, sender, is_sent = text_frame(message.text), message.sender, False
        for receiver in live.receivers:
            if receiver.number != sender:
                receiver.send(message, frame)
                is_sent = True
        if not is_sent:
            self._keep(live, message.number)
            return False
        self._unkept[live] = None
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._keep_old)
        return True

    def _keep(self, live: LiveTopic, up_to: int) -> None:
        for message in live.to_keep(up_to):
            self._journal.keep(message)

    def _keep_old(self) -> None:
        """Store the messages that were there at the last tick already: they were not settled in time."""
        for live in list(self._unkept):
            self._keep(live, self._number_at_tick)
            if not live.has_more_to_keep:
                del self._unkept[live]
        self._number_at_tick = self._last_number
        self._tick = None
        if self._unkept:
            self._tick = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._keep_old)

    async def _catch_up(self, topic: Topic, live: LiveTopic, receiver: Receiver) -> int:
        async with self._turns.taken(topic):
            if not live.is_loaded:
                await self._journal.caught_up()  # messages that were settled before are deleted by then
                live.load(await self._store.waiting(topic, self._clock.now_ms()))
        position = -1
        while True:
            reached = position
            for message in live.missed(receiver, position, self._clock.now_ms()):
                receiver.send(message, text_frame(message.text))
                position = message.number
                await receiver.drain()
            if position == reached:
                return position

    def _forget_if_deserted(self, topic: Topic, live: LiveTopic) -> None:
        if live.is_deserted and self._live.get(topic) is live:
            self._keep(live, self._last_number)
            self._unkept.pop(live, None)
            del self._live[topic]


# Topics of several processes on one database: the store is the queue.
#
# A message is stored at once, and every process with a subscriber of its topic reads it from there. Memory
# holds the receivers, and the number of the newest message that was read. The store gives numbers under the
# topic's turn: a message that becomes visible later has a greater number.
#
# A settled message stays on disk for some seconds, for receivers at processes that have not read it yet.
# Nobody else is sent it.

_PAGE = 100
_TOPICS_AT_ONCE = 64
_RETRY_SECONDS = 0.25
_FIRST_PROVISIONAL = -(2**62)
"""Until the store gives a message its number it has a negative one, which no stored message has."""

log = structlog.get_logger()


class SharedTopic(SubscribedTopic):
    """A topic whose messages this process reads from the store."""

    __slots__ = ("arrivals", "position")

    def __init__(self) -> None:
        super().__init__()
        self.arrivals = self.position = 0
        """The number of the newest message that was read for the receivers."""

    def join(self, receiver: Receiver, position: int) -> None:
        if not self.receivers:
            self.position = max(self.position, position)
        super().join(receiver, position)

    def send(self, messages: Sequence[Message]) -> None:
        """Send each new message to all receivers but its sender."""
        for message in messages:
            if message.number <= self.position:
                continue
            self.position = message.number
            frame = text_frame(message.text)
            for receiver, joined_at in self.receivers.items():
                if message.number > joined_at and message.sender != receiver.number:
                    receiver.send(message, frame)


class SharedTopics(_Subscriptions[SharedTopic]):
    """The topics with a subscriber in this process, one of several."""

    make_topic = SharedTopic

    def __init__(
        self, store: TopicStore, journal: Journal, clock: Clock, limits: QueueLimits, events: Events
    ) -> None:
        super().__init__(store, journal, clock, limits)
        self._last_number = _FIRST_PROVISIONAL
        self._touched: dict[Topic, None] = {}
        self._something_came = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._is_reading = False
        events.subscribe(MessagesStored, self._on_stored, everywhere=True)
        events.on_gap(lambda: self._touch(self._live))  # there may be messages on any topic

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send stored messages, of this and of other processes, while inside."""
        async with running(self._deliver_forever()):
            yield

    def publish(self, sender: int, address: str | None, published: Publish) -> bool:
        """Store the message; it is sent to all other receivers from there. Only the journal can refuse it.
        Returns whether there is a receiver in this process.
        """
        self._last_number += 1
        frame = v1_store.write_message(published)
        expires_at_ms = self._clock.now_ms() + self._limits.lifetime_ms
        message = Message(self._last_number, published.topic, frame, sender, address, expires_at_ms)
        self._journal.keep(message)
        if not published.silent:
            self._journal.announce(message)
        live = self._live.get(published.topic)
        return live is not None and any(each.number != sender for each in live.receivers)

    async def _catch_up(self, topic: Topic, live: SharedTopic, receiver: Receiver) -> int:
        await self._journal.caught_up()  # messages that were settled before are settled on disk by then
        return await self._replay(topic, live, receiver)

    def settle(self, topic: Topic, number: int) -> None:
        """Drop the message of this number, which has arrived, unless it is dropped already."""
        self._journal.drop(number)

    def refuse(self, message: Message) -> None:
        """Do nothing: a message that the journal refused was sent to nobody."""

    async def caught_up(self) -> None:
        """Return once earlier changes are on disk, and sent to receivers here. Raises UnavailableError."""
        await self._journal.caught_up()
        if self._touched or self._is_reading:
            await until_done(self._waiting, self._something_came, v1_store.PATIENCE_SECONDS, "read")

    async def _replay(self, topic: Topic, live: SharedTopic, receiver: Receiver) -> int:
        """Send what waits, until there is nothing more and nothing came meanwhile; returns up to where."""
        position = 0
        while True:
            before = live.arrivals, live.position
            page = await self._store.after(topic, position, self._clock.now_ms(), _PAGE)
            for message in page:
                position = message.number
                if message.sender != receiver.number and not message.is_settled:
                    receiver.send(message, text_frame(message.text))
                    await receiver.drain()
            if not page and (live.arrivals, live.position) == before:
                return position

    def _on_stored(self, event: MessagesStored) -> None:
        if event.topic in self._live:
            self._touch((Topic(event.topic),))

    async def _deliver_forever(self) -> None:
        while True:
            await self._something_came.wait()
            self._something_came.clear()
            touched, self._touched = list(self._touched), {}
            waiting, self._waiting = self._waiting, []
            self._is_reading = True
            try:
                await self._deliver_all(touched)
            except Exception as error:  # no error may make a receiver miss a message
                is_known = isinstance(error, BridgeError)
                log.warning("messages_delayed", reason=str(error), exc_info=not is_known)
                self._touch(touched)
                self._waiting[:0] = waiting
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                for done in waiting:
                    settle(done, None)
            self._is_reading = False

    async def _deliver_all(self, topics: Sequence[Topic]) -> None:
        for first in range(0, len(topics), _TOPICS_AT_ONCE):
            await asyncio.gather(*map(self._deliver, topics[first : first + _TOPICS_AT_ONCE]))

    async def _deliver(self, topic: Topic) -> None:
        """Send a page of the messages that the receivers have not been sent."""
        live = self._live.get(topic)
        if live is None or not live.receivers:
            return
        page = await self._store.after(topic, live.position, self._clock.now_ms(), _PAGE)
        live.send(page)
        if len(page) == _PAGE:
            self._touch((topic,))

    def _touch(self, topics: Iterable[Topic]) -> None:
        """Note that these topics may have new messages, at once, so that a replay sees it."""
        for topic in topics:
            if (live := self._live.get(topic)) is not None:
                live.arrivals += 1
                self._touched[topic] = None
        self._something_came.set()


Deliveries: TypeAlias = Topics | SharedTopics
"""Brings published messages to the receivers of their topics. It must be `running`, inside the journal's."""
