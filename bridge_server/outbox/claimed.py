"""One queue's messages in memory: while this process has the lease, no other process sends them."""

import asyncio
from collections import deque
from collections.abc import Collection

import structlog

from bridge_server.outbox.models import Claimant, DueMessage
from bridge_server.outbox.surroundings import Surroundings

_UNREADABLE_STORE_PAUSE_MS = 5_000

log = structlog.get_logger()


class Claimed:
    """Messages that are due, in the order in which they are sent.

    They are read from the store `first` at once, then twice as many each time, up to `most`.
    """

    def __init__(self, claimant: Claimant, shared: Surroundings, first: int, most: int) -> None:
        self._queue = claimant.queue
        self._client = claimant.client
        self._shared = shared
        self._size = first
        self._most = most
        self._messages: deque[DueMessage] = deque()
        self._reading = asyncio.Lock()
        self._maybe_more = True
        self._more_has_failed = claimant.has_failed
        self._tenure = shared.leases.tenure(self._queue.destination)

    @property
    def may_have_any(self) -> bool:
        """Whether there is a message to send, or the store may have one."""
        return bool(self._messages) or self._maybe_more

    @property
    def has_to_be_read(self) -> bool:
        """Whether there is no message in memory, and the store may have one."""
        return not self._messages and self._maybe_more

    @property
    def head(self) -> DueMessage | None:
        """The message that is sent next."""
        return self._messages[0] if self._messages else None

    def take(self) -> DueMessage:
        """Remove and return the head."""
        return self._messages.popleft()

    def let_go(self, row_id: int) -> None:
        """Forget the message until it is read from the store again."""
        self._messages = deque(due for due in self._messages if due.row_id != row_id)

    def rouse(self, has_failed: bool) -> None:
        """Read the store again: a message was added, or a retry has become due."""
        self._more_has_failed = has_failed and (self._more_has_failed or not self._maybe_more)
        if not has_failed and self._messages and self._messages[-1].attempts > 0:
            self._messages.clear()  # a new message goes before them, and they are still due
        self._maybe_more = True

    def claimant(self) -> Claimant:
        """The queue as it asks for a place: with the client of the message that it would send next."""
        if self._messages:
            head = self._messages[0]
            return Claimant(self._queue, head.message.client, head.attempts > 0)
        return Claimant(self._queue, self._client, self._more_has_failed)

    def has_lease(self) -> bool:
        """Whether this process has had the destination ever since the messages were read."""
        return self._tenure == self._shared.leases.tenure(self._queue.destination) != 0

    async def take_lease(self) -> bool:
        """Read the messages anew: another process may have sent them. False while that process has them."""
        leases, destination = self._shared.leases, self._queue.destination
        is_here = await leases.take(destination)
        if self._tenure != leases.tenure(destination) or not is_here:
            self._tenure = leases.tenure(destination)
            self._messages.clear()
            self._maybe_more = is_here
        return is_here

    async def read(self, in_flight: Collection[int]) -> None:
        """Read messages from the store if there is none in memory, without the rows in flight."""
        async with self._reading:
            if self._messages or not self._maybe_more:
                return
            # A message in flight may be settled by the time the rows are read, and may still be among them.
            busy = set(in_flight)
            limit = self._size + len(busy)
            self._maybe_more = False
            withheld = self._shared.withheld
            given_back, tenure = withheld.given_back, self._tenure
            messages = await self._due(limit)
            if messages is None:
                return
            is_outdated = withheld.given_back != given_back or tenure != self._tenure
            if is_outdated or not self.has_lease():  # these rows may be deleted by now, or changed
                self._maybe_more = True
                return
            if len(messages) == limit:
                self._more_has_failed = not self._maybe_more and messages[-1].attempts > 0
                self._maybe_more = True
            self._messages.extend(
                due for due in messages if due.row_id not in busy and due.row_id not in withheld
            )
            self._size = min(2 * self._size, self._most)

    async def _due(self, limit: int) -> list[DueMessage] | None:
        """The queue's messages that are due; None if the store cannot be read, and later again."""
        now_ms = self._shared.clock.now_ms()
        try:
            return await self._shared.store.next_messages(self._queue, now_ms, limit)
        except Exception as error:
            log.warning("webhooks_not_read", destination=self._queue.destination, error=str(error))
            self._shared.schedule.put(self.claimant(), now_ms + _UNREADABLE_STORE_PAUSE_MS)
            return None
