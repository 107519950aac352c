"""Every open socket: who may open one, which of them are dead, and how they end."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

from aiohttp import WSCloseCode

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.ids import IdMaker
from bridge_server.pubsub.errors import TooManySocketsError
from bridge_server.pubsub.journal import Journal
from bridge_server.pubsub.models import Message, QueueLimits, SocketLimits
from bridge_server.pubsub.store import TopicStore
from bridge_server.pubsub.subscriber import Subscriber
from bridge_server.pubsub.topics import Topics
from bridge_server.web.socket import ping_frame

_NUMBER_BYTES = 7
_PING_BYTES = 4
_PINGS_IN_A_ROW = 250
_SWEEP_SLICE = 500
_RESET = "The server was reset. Connect again."
_GOODBYE = "The server stops. Connect again."


class PubSub:
    """The room's service. It must be `running`."""

    def __init__(
        self,
        store: TopicStore,
        clock: Clock,
        ids: IdMaker,
        random_bytes: Callable[[int], bytes],
        queue_limits: QueueLimits,
        socket_limits: SocketLimits,
        charge: Callable[[str], object],
    ) -> None:
        self._store = store
        self._journal = Journal(store, clock, ids, queue_limits, self._refuse)
        self._topics = Topics(store, self._journal, clock, queue_limits)
        self._random_bytes = random_bytes
        self._limits = socket_limits
        self._charge = charge
        self._open: dict[int, Subscriber] = {}
        self._open_from: Counter[str] = Counter()
        self._is_closed = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store what is published, and look for dead sockets, while inside."""
        await self._topics.open()
        async with self._journal.running(), running(self._ping_forever()):
            try:
                yield
            finally:
                self._topics.keep_all()

    @property
    def sockets(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def topics(self) -> int:
        """How many somebody is subscribed to."""
        return len(self._topics)

    def welcome(self, address: str | None) -> Subscriber:
        """Whoever is at this address; None is exempt from limits. Whoever is welcomed must leave.

        Raises TooManySocketsError, UnavailableError.
        """
        if self._is_closed:
            raise UnavailableError(_GOODBYE)
        if address is not None:
            if self._open_from[address] >= self._limits.per_address:
                raise TooManySocketsError(self._limits.per_address)
            self._open_from[address] += 1
        number = int.from_bytes(self._random_bytes(_NUMBER_BYTES))
        subscriber = Subscriber(
            number,
            address,
            self._topics,
            self._journal,
            self._limits.topics,
            self._limits.unacknowledged,
            self._charge,
            self._forget,
        )
        self._open[number] = subscriber
        return subscriber

    def close(self) -> None:
        """End every socket, and from now on any that opens: the server stops."""
        self._is_closed = True
        for subscriber in self._open.values():
            subscriber.end(WSCloseCode.GOING_AWAY, _GOODBYE)

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """End every socket and keep no message, so that the database can be emptied inside."""
        for subscriber in list(self._open.values()):
            subscriber.end(WSCloseCode.GOING_AWAY, _RESET)
            subscriber.leave()
        self._topics.keep_all()
        await self._journal.caught_up()
        yield

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the messages that have expired; returns how many."""
        return await self._store.sweep(now_ms, _SWEEP_SLICE)

    def _forget(self, subscriber: Subscriber) -> None:
        if self._open.pop(subscriber.number, None) is None or subscriber.address is None:
            return
        self._open_from[subscriber.address] -= 1
        if not self._open_from[subscriber.address]:
            del self._open_from[subscriber.address]

    def _refuse(self, message: Message, error: BridgeError) -> None:
        self._topics.refuse(message)
        sender = self._open.get(message.sender)
        if sender is not None:
            sender.end(WSCloseCode.TRY_AGAIN_LATER, error.detail)

    async def _ping_forever(self) -> None:
        """Ping every socket now and then, letting others have a turn in between."""
        for round_number in count():
            await asyncio.sleep(self._limits.heartbeat_seconds)
            payload = (round_number % 2**32).to_bytes(_PING_BYTES)
            ping = ping_frame(payload)
            for pinged, subscriber in enumerate(list(self._open.values()), 1):
                subscriber.probe(ping, payload)
                if pinged % _PINGS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
