"""Publishing, subscribing, settling: the rules of the room (its package says when a message is dropped).

A message without a receiver is stored at once. A message that was sent to an open socket is stored only if it
is not settled soon: most are, and never touch the disk.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.turns import KeyedLock
from bridge_server.pubsub import wire
from bridge_server.pubsub.journal import Journal
from bridge_server.pubsub.queues.models import Message, Publish, QueueLimits
from bridge_server.pubsub.store import TopicStore
from bridge_server.pubsub.topic import LiveTopic, Receiver
from bridge_server.topics.models import Topic
from bridge_server.web.frames import text_frame

GRACE_SECONDS = 0.05
"""A message that is not settled is stored after once to twice this time."""


class Topics:
    """The topics with a subscriber, in memory. A topic without one is only on disk."""

    def __init__(self, store: TopicStore, journal: Journal, clock: Clock, limits: QueueLimits) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._live: dict[Topic, LiveTopic] = {}
        self._turns = KeyedLock()
        self._last_number = 0
        self._number_at_tick = 0
        self._unkept: dict[LiveTopic, None] = {}
        self._tick: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._live)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Continue the message numbers of the previous process; on leaving, store what is not settled."""
        self._last_number = self._number_at_tick = await self._store.newest()
        try:
            yield
        finally:
            self._keep_all()

    def publish(self, sender: int, address: str | None, published: Publish) -> None:
        """Send the message to all other receivers, and keep it until it is settled.

        Raises QueueFullError. For a topic without a subscriber, only the journal finds this out.
        """
        now_ms = self._clock.now_ms()
        message = Message(
            self._last_number + 1,
            published.topic,
            wire.write_message(published),
            sender,
            address,
            now_ms + self._limits.lifetime_ms,
        )
        live = self._live.get(published.topic)
        if live is None:
            self._journal.keep(message)
        else:
            live.add(message, self._limits.topic, now_ms)
            self._send(live, message)
        self._last_number = message.number
        if not published.silent:
            self._journal.announce(message)

    async def subscribe(self, receiver: Receiver, topic: Topic) -> None:
        """Send the receiver all messages of the topic, and from then on each new one.

        Raises UnavailableError.
        """
        live = self._live.get(topic)
        if live is None:
            live = self._live[topic] = LiveTopic()
        live.joining += 1
        try:
            await self._load(topic, live)
            await self._replay(live, receiver)
            live.receivers[receiver] = None
        finally:
            live.joining -= 1
            self._forget_if_deserted(topic, live)

    def unsubscribe(self, receiver: Receiver, topic: Topic) -> None:
        """Send the receiver nothing more of the topic."""
        live = self._live[topic]
        del live.receivers[receiver]
        self._forget_if_deserted(topic, live)

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

    def _send(self, live: LiveTopic, message: Message) -> None:
        frame, sender, is_sent = text_frame(message.text), message.sender, False
        for receiver in live.receivers:
            if receiver.number != sender:
                receiver.send(message, frame)
                is_sent = True
        if not is_sent:
            self._keep(live, message.number)
            return
        self._unkept[live] = None
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._keep_old)

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

    async def _load(self, topic: Topic, live: LiveTopic) -> None:
        async with self._turns.taken(topic):
            if not live.is_loaded:
                await self._journal.caught_up()  # messages that were settled before are deleted by then
                live.load(await self._store.waiting(topic, self._clock.now_ms()))

    async def _replay(self, live: LiveTopic, receiver: Receiver) -> None:
        """Send the messages that the receiver has missed, until no new one came during the sending."""
        position = -1
        while True:
            reached = position
            for message in live.missed(receiver, position, self._clock.now_ms()):
                receiver.send(message, text_frame(message.text))
                position = message.number
                await receiver.drain()
            if position == reached:
                return

    def _forget_if_deserted(self, topic: Topic, live: LiveTopic) -> None:
        """Forget the topic if it has no subscriber, after its messages are stored."""
        if live.is_deserted and self._live.get(topic) is live:
            self._keep(live, self._last_number)
            self._unkept.pop(live, None)
            del self._live[topic]
