"""Sockets of generation 1.x: a client's messages, its deliveries, its detection as dead."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp import WSCloseCode

from bridge_server.kernel.background import running
from bridge_server.kernel.errors import BridgeError
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub import v1_store
from bridge_server.pubsub.frames import short_topics
from bridge_server.pubsub.queues import OpenSockets
from bridge_server.pubsub.v1_store import Journal, Message, Publish, Subscribe, TopicStore
from bridge_server.pubsub.v1_topics import Deliveries
from bridge_server.web.sockets import Socket

Charge: TypeAlias = Callable[[str], Awaitable[object] | None]
"""Charges an address for a message, at once or when what is returned was awaited."""

_USUAL_BYTES = 256  # of an acknowledgement
_NONE_YET: tuple[bytes | None, Topic] = (None, Topic(""))


class Subscriber:
    """Implements the party of a socket, and the receiver of its topics."""

    __slots__ = (
        "_acknowledges", "_charge", "_counted", "_farewell", "_forget", "_frames", "_is_quiet",
        "_is_settling", "_journal", "_last_acknowledgement", "_most_topics", "_most_unacknowledged",
        "_outlet", "_pinged", "_sent", "_topics", "address", "number",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        address: str | None,
        topics: Deliveries,
        journal: Journal,
        charge: Charge,
        others: "OpenSockets[Subscriber]",
    ) -> None:
        self.number = number
        self.address = address
        self._topics = topics
        self._journal = journal
        self._charge = charge
        self._frames = others.frames
        self._forget = others.forget
        self._counted = others.shares
        self._most_topics = others.shares.limits.topics
        self._most_unacknowledged = others.shares.limits.unacknowledged
        self._outlet: Socket | None = None
        self._farewell: tuple[int, str] | None = None
        self._sent: dict[Topic, deque[int]] = {}
        self._acknowledges = False
        self._last_acknowledgement = _NONE_YET  # most are the same text again
        self._is_quiet = self._is_settling = False
        self._pinged: tuple[bytes, list[tuple[Topic, int]]] | None = None

    def join(self, outlet: Socket) -> None:
        self._outlet = outlet
        if self._farewell is not None:
            outlet.end(*self._farewell)

    def hear(self, text: bytes) -> Awaitable[None] | None:
        self._is_quiet = False
        if text == self._last_acknowledgement[0]:
            return self._acknowledge(self._last_acknowledgement[1])
        frame = v1_store.read_frame(text)
        if isinstance(frame, v1_store.Acknowledge):
            if len(text) <= _USUAL_BYTES:
                self._last_acknowledgement = (text, frame.topic)
            return self._acknowledge(frame.topic)
        late = self._charge_address()
        return self._do(frame) if late is None else self._do_after(late, frame)

    async def settle(self) -> None:
        self._is_quiet, self._is_settling = False, True
        try:
            late = self._charge_address()
            if late is not None:
                await late
            await self._topics.caught_up()
        finally:
            self._is_settling = False

    def recognise(self, pong: bytes) -> None:
        self._is_quiet = False
        if self._pinged is not None and self._pinged[0] == pong:
            if not self._acknowledges:
                for topic, count in self._pinged[1]:
                    for _ in range(count):
                        self._topics.settle(topic, self._sent[topic].popleft())
            self._pinged = None

    def leave(self) -> None:
        self._outlet = self._pinged = None
        topics, self._sent = self._sent, {}
        self._counted.give_back(self.address, len(topics))
        self._forget(self)
        for topic in topics:
            self._topics.unsubscribe(self, topic)

    def send(self, message: Message, frame: bytes) -> None:
        """Send a message, which is then to be acknowledged."""
        if self._outlet is None:
            return
        sent = self._sent[message.topic]
        sent.append(message.number)
        self._outlet.push(frame)
        if len(sent) > self._most_unacknowledged:
            reason = "You acknowledge too few messages. Connect again for the rest."
            self.end(WSCloseCode.TRY_AGAIN_LATER, reason)

    async def drain(self) -> None:
        """Wait while too much is unsent."""
        if self._outlet is not None:
            await self._outlet.drain()
            self._is_quiet = False  # it has read something; its messages are heard only after a backlog

    def probe(self, ping: bytes, payload: bytes) -> None:
        """Ping the client, and close its socket if it has sent nothing since the last ping. What it sends
        while the disk is waited for is heard only after that.
        """
        if self._outlet is None or self._is_settling:
            return
        if self._is_quiet:
            self._outlet.abort()
            return
        self._is_quiet = True
        unconfirmed = [] if self._acknowledges else [(topic, len(sent)) for topic, sent in self._sent.items()]
        self._pinged = (payload, [(topic, count) for topic, count in unconfirmed if count])
        self._outlet.push(ping)

    def end(self, code: int, reason: str) -> None:
        """Close the socket in good order, at once or as soon as it is open."""
        self._farewell = code, reason
        if self._outlet is not None:
            self._outlet.end(code, reason)

    def _do(self, frame: Publish | Subscribe) -> Awaitable[None] | None:
        if isinstance(frame, Publish):
            has_receiver = self._topics.publish(self.number, self.address, frame)
            if self._frames is not None:
                what = f"{len(frame.payload)} B to {short_topics((frame.topic,))}"
                self._frames.note("pub", f"{what}: {self._frames.outcome(has_receiver=has_receiver)}")
            return self._journal.caught_up() if self._journal.is_behind else None
        if frame.topic in self._sent:
            return None
        if self._frames is not None:
            self._frames.note("sub", short_topics((frame.topic,)))
        return self._subscribe(frame.topic)

    async def _do_after(self, late: Awaitable[object], frame: Publish | Subscribe) -> None:
        await late
        pending = self._do(frame)
        if pending is not None:
            await pending

    async def _subscribe(self, topic: Topic) -> None:
        if len(self._sent) >= self._most_topics:
            raise v1_store.TooManyTopicsError(self._most_topics)
        self._counted.take(self.address)
        self._sent[topic] = deque()
        try:
            await self._topics.subscribe(self, topic)
        except BaseException:
            if self._sent.pop(topic, None) is not None:  # otherwise the client has left meanwhile
                self._counted.give_back(self.address)
            raise

    def _acknowledge(self, topic: Topic) -> Awaitable[None] | None:
        sent = self._sent.get(topic)
        if not sent:
            late = self._charge_address()
            return None if late is None else _settled(late)
        self._acknowledges = True
        self._topics.settle(topic, sent.popleft())
        return None

    def _charge_address(self) -> Awaitable[object] | None:
        """Charge the address for the message, at once or in the awaitable. Acknowledgements are free."""
        return None if self.address is None else self._charge(self.address)


async def _settled(late: Awaitable[object]) -> None:
    await late


# The service, which opens the sockets of generation 1.x.

_NUMBER_BYTES = 7
_SWEEP_SLICE = 500

Delivering: TypeAlias = Callable[[Callable[[Message, BridgeError], None]], tuple[Journal, Deliveries]]
"""Makes the journal and the deliveries, given the function to call with messages that are not stored."""


class PubSub:
    """The room's service for generation 1.x. `running` must be entered."""

    def __init__(
        self,
        store: TopicStore,
        delivering: Delivering,
        open_sockets: "OpenSockets[Subscriber]",
        charge: Charge,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._journal, self._topics = delivering(self._refuse)
        self._open = open_sockets
        self._charge = charge
        self._random_bytes = random_bytes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store published messages and find dead sockets while inside."""
        async with self._journal.running(), self._topics.running(), running(self._open.ping_forever()):
            yield

    @property
    def sockets(self) -> int:
        """The number of open sockets."""
        return len(self._open)

    @property
    def topics(self) -> int:
        """The number of topics with a subscriber."""
        return len(self._topics)

    def welcome(self, address: str | None) -> Subscriber:
        """A subscriber at this address; None is exempt from limits. The caller must let it `leave`. Raises
        TooManySocketsError, UnavailableError.
        """
        self._open.require_place(address)
        number = int.from_bytes(self._random_bytes(_NUMBER_BYTES))
        subscriber = Subscriber(number, address, self._topics, self._journal, self._charge, self._open)
        self._open.add(subscriber)
        return subscriber

    def close(self) -> None:
        """End every socket, and from now on any that opens: the server stops."""
        self._open.close()

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """End every socket and keep no message, so that the database can be emptied inside."""
        self._open.end_all()
        await self._topics.caught_up()
        yield

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the messages that have expired; returns how many."""
        return await self._store.sweep(now_ms, _SWEEP_SLICE)

    def _refuse(self, message: Message, error: BridgeError) -> None:
        self._topics.refuse(message)
        if self._open.frames is not None:
            self._open.frames.note("pub", "", error)
        sender = self._open.get(message.sender)
        if sender is not None:
            sender.end(WSCloseCode.TRY_AGAIN_LATER, error.detail)
