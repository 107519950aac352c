"""A client that connects again is sent its waiting messages, also on topics that it does not name again."""

import asyncio
from collections.abc import Iterable

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.pubsub.irn.journal import IrnJournal
from bridge_server.pubsub.irn.models import ClientLimits, Subscribing
from bridge_server.pubsub.irn.socket import IrnSocket
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.topics.models import Topic

RESUME_SECONDS = 1.0
"""The time for a client to subscribe anew. Sooner, some JavaScript clients would acknowledge a message of a
topic that they have not subscribed to yet, and drop it.
"""

_RENEWED_AFTER_MS = 86_400_000


class Resuming:
    """Sockets that have opened a moment ago."""

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
        longest_ms = self._limits.subscription_ms
        if left and min(left.values()) < now_ms + longest_ms - min(_RENEWED_AFTER_MS, longest_ms // 2):
            self._journal.submit(
                Subscribing(socket.client, socket.address, tuple(left), done=lambda refused: None)
            )
