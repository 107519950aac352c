"""Topics of several processes on one database: the store is the queue.

A message is stored at once, and every process with a subscriber of its topic reads it from there. Memory
holds the receivers, and the number of the newest message that was read. The store gives numbers under the
topic's turn: a message that becomes visible later has a greater number.

A settled message stays on disk for some seconds, for receivers at processes that have not read it yet. Nobody
else is sent it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.pubsub import wire
from bridge_server.pubsub.events import MessagesStored
from bridge_server.pubsub.journal import Journal
from bridge_server.pubsub.queues.models import Message, Publish, QueueLimits
from bridge_server.pubsub.store import TopicStore
from bridge_server.pubsub.topic import Receiver
from bridge_server.topics.models import Topic
from bridge_server.web.frames import text_frame

_PAGE = 100
_TOPICS_AT_ONCE = 64
_RETRY_SECONDS = 0.25
_PATIENCE_SECONDS = 5.0
_FIRST_PROVISIONAL = -(2**62)
"""Until the store gives a message its number it has a negative one, which no stored message has."""

log = structlog.get_logger()


class SharedTopic:
    """A topic with a subscriber in this process."""

    __slots__ = ("arrivals", "joining", "position", "receivers")

    def __init__(self) -> None:
        self.receivers: dict[Receiver, int] = {}
        """The receivers, each with the number of the last message that it had read when it joined."""
        self.joining = self.arrivals = 0
        self.position = 0
        """The number of the newest message that was read for the receivers."""

    def join(self, receiver: Receiver, position: int) -> None:
        """The receiver has been sent everything up to this number."""
        if not self.receivers:
            self.position = max(self.position, position)
        self.receivers[receiver] = position

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


class SharedTopics:
    """The topics with a subscriber in this process."""

    def __init__(
        self, store: TopicStore, journal: Journal, clock: Clock, limits: QueueLimits, events: Events
    ) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._live: dict[Topic, SharedTopic] = {}
        self._last_number = _FIRST_PROVISIONAL
        self._touched: dict[Topic, None] = {}
        self._something_came = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._is_reading = False
        events.subscribe(MessagesStored, self._on_stored, everywhere=True)
        events.on_gap(self._look_everywhere)

    def __len__(self) -> int:
        return len(self._live)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send stored messages, of this and of other processes, while inside."""
        async with running(self._deliver_forever()):
            yield

    def publish(self, sender: int, address: str | None, published: Publish) -> None:
        """Store the message; it is sent to all other receivers from there. Only the journal can refuse it."""
        self._last_number += 1
        message = Message(
            self._last_number,
            published.topic,
            wire.write_message(published),
            sender,
            address,
            self._clock.now_ms() + self._limits.lifetime_ms,
        )
        self._journal.keep(message)
        if not published.silent:
            self._journal.announce(message)

    async def subscribe(self, receiver: Receiver, topic: Topic) -> None:
        """Send the receiver all messages of the topic, and from then on each new one.

        Raises UnavailableError.
        """
        live = self._live.get(topic)
        if live is None:
            live = self._live[topic] = SharedTopic()
        live.joining += 1
        try:
            await self._journal.caught_up()  # messages that were settled before are settled on disk by then
            live.join(receiver, await self._replay(topic, live, receiver))
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
        self._journal.drop(number)

    def refuse(self, message: Message) -> None:
        """Do nothing: a message that the journal refused was sent to nobody."""

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk, and sent to the receivers in this process.

        Raises UnavailableError.
        """
        await self._journal.caught_up()
        if not (self._touched or self._is_reading):
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._something_came.set()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await done
        except TimeoutError as error:
            raise UnavailableError("Messages cannot be read. Try again shortly.") from error

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

    def _look_everywhere(self) -> None:
        """Other processes may have stored messages on any topic."""
        self._touch(self._live)

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
                log.warning(
                    "messages_delayed", reason=str(error), exc_info=not isinstance(error, BridgeError)
                )
                self._touch(touched)
                self._waiting[:0] = waiting
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                for done in waiting:
                    if not done.done():
                        done.set_result(None)
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
        """There may be new messages on these topics. Counted at once, so that a replay sees it."""
        for topic in topics:
            if (live := self._live.get(topic)) is not None:
                live.arrivals += 1
                self._touched[topic] = None
        self._something_came.set()

    def _forget_if_deserted(self, topic: Topic, live: SharedTopic) -> None:
        if not live.receivers and not live.joining and self._live.get(topic) is live:
            del self._live[topic]
