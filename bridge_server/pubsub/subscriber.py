"""One socket: its client's messages, its deliveries, and its detection as dead."""

from collections import deque
from collections.abc import Awaitable, Callable

from aiohttp import WSCloseCode

from bridge_server.pubsub import wire
from bridge_server.pubsub.deliveries import Deliveries
from bridge_server.pubsub.journal import Journal
from bridge_server.pubsub.queues.errors import TooManyTopicsError
from bridge_server.pubsub.queues.models import Acknowledge, Message, Publish, Subscribe
from bridge_server.topics.models import Topic
from bridge_server.web.socket import Socket

_USUAL_BYTES = 256  # of an acknowledgement
_NONE_YET: tuple[bytes | None, Topic] = (None, Topic(""))


class Subscriber:
    """Implements the party of a socket, and the receiver of its topics."""

    __slots__ = (
        "_acknowledges", "_charge", "_farewell", "_forget", "_is_quiet", "_is_settling", "_journal",
        "_last_acknowledgement", "_most_topics", "_most_unacknowledged", "_outlet", "_pinged", "_sent",
        "_topics", "address", "number",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        address: str | None,
        topics: Deliveries,
        journal: Journal,
        most_topics: int,
        most_unacknowledged: int,
        charge: Callable[[str], Awaitable[object] | None],
        forget: Callable[["Subscriber"], object],
    ) -> None:
        self.number = number
        self.address = address
        self._topics = topics
        self._journal = journal
        self._most_topics = most_topics
        self._most_unacknowledged = most_unacknowledged
        self._charge = charge
        self._forget = forget
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
        frame = wire.read_frame(text)
        if isinstance(frame, Acknowledge):
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
        self._outlet = None
        for topic in self._sent:
            self._topics.unsubscribe(self, topic)
        self._sent = {}
        self._forget(self)

    def send(self, message: Message, frame: bytes) -> None:
        """Send a message, which is then to be acknowledged."""
        if self._outlet is None:
            return
        sent = self._sent[message.topic]
        sent.append(message.number)
        self._outlet.push(frame)
        if len(sent) > self._most_unacknowledged:
            self.end(
                WSCloseCode.TRY_AGAIN_LATER, "You acknowledge too few messages. Connect again for the rest."
            )

    async def drain(self) -> None:
        """Wait while too much is unsent."""
        if self._outlet is not None:
            await self._outlet.drain()
            self._is_quiet = False  # it has read something; its messages are heard only after a backlog

    def probe(self, ping: bytes, payload: bytes) -> None:
        """Ping the client, and close its socket if it has sent nothing since the last ping.

        What it sends while the disk is waited for is heard only after that.
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
            self._topics.publish(self.number, self.address, frame)
            return self._journal.caught_up() if self._journal.is_behind else None
        return None if frame.topic in self._sent else self._subscribe(frame.topic)

    async def _do_after(self, late: Awaitable[object], frame: Publish | Subscribe) -> None:
        await late
        pending = self._do(frame)
        if pending is not None:
            await pending

    async def _subscribe(self, topic: Topic) -> None:
        if len(self._sent) >= self._most_topics:
            raise TooManyTopicsError(self._most_topics)
        self._sent[topic] = deque()
        try:
            await self._topics.subscribe(self, topic)
        except BaseException:  # the client may have left meanwhile
            del self._sent[topic]
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
        """Charge the address for the client's message, at once or when what is returned was awaited.
        Acknowledgements are free.
        """
        return None if self.address is None else self._charge(self.address)


async def _settled(late: Awaitable[object]) -> None:
    await late
