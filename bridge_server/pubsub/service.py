"""All open sockets of generation 1.x, and the topics to which they are subscribed."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import WSCloseCode

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.ids import IdMaker
from bridge_server.pubsub.deliveries import Deliveries
from bridge_server.pubsub.journal import Journal
from bridge_server.pubsub.queues.models import Message, QueueLimits, SocketLimits
from bridge_server.pubsub.queues.sockets import OpenSockets
from bridge_server.pubsub.store import TopicStore
from bridge_server.pubsub.subscriber import Subscriber
from bridge_server.pubsub.topics import Topics

_NUMBER_BYTES = 7
_SWEEP_SLICE = 500


class PubSub:
    """The room's service for generation 1.x. `running` must be entered."""

    def __init__(
        self,
        store: TopicStore,
        clock: Clock,
        ids: IdMaker,
        random_bytes: Callable[[int], bytes],
        queue_limits: QueueLimits,
        socket_limits: SocketLimits,
        open_from: Counter[str],
        charge: Callable[[str], Awaitable[object] | None],
        deliveries: Callable[[TopicStore, Journal, Clock, QueueLimits], Deliveries] = Topics,
    ) -> None:
        self._store = store
        self._journal = Journal(store, clock, ids, queue_limits, self._refuse)
        self._topics = deliveries(store, self._journal, clock, queue_limits)
        self._random_bytes = random_bytes
        self._limits = socket_limits
        self._charge = charge
        self._open: OpenSockets[Subscriber] = OpenSockets(
            socket_limits, open_from, lambda: socket_limits.heartbeat_seconds
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store published messages and look for dead sockets while inside."""
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
        """A subscriber at this address; None is exempt from limits. The caller must let it `leave`.

        Raises TooManySocketsError, UnavailableError.
        """
        self._open.require_place(address)
        subscriber = Subscriber(
            int.from_bytes(self._random_bytes(_NUMBER_BYTES)),
            address,
            self._topics,
            self._journal,
            self._limits.topics,
            self._limits.unacknowledged,
            self._charge,
            self._open.forget,
        )
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
        sender = self._open.get(message.sender)
        if sender is not None:
            sender.end(WSCloseCode.TRY_AGAIN_LATER, error.detail)
