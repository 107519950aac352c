"""One queue's deliveries: some at a time, one while it fails, until nothing is due."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.admission import Admission
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.errors import MessageBeingSentError
from bridge_server.outbox.leases import Leases
from bridge_server.outbox.models import Claimant, DueMessage
from bridge_server.outbox.places import Place
from bridge_server.outbox.schedule import Schedule
from bridge_server.outbox.store import OutboxStore
from bridge_server.outbox.troubled import Troubled
from bridge_server.outbox.withheld import Withheld
from bridge_server.outgoing.outcome import Outcome, Verdict

# A host that a stranger named gets few requests at once; a service that this server pushes through is made
# for many. A push service that a browser named lies in between: a stranger's choice, mostly one of three.
_AT_ONCE = 4
_AT_ONCE_OF_CHANNEL_AT_HOST = 16
_AT_ONCE_OF_CHANNEL = 64
# The next request is made while the last outcomes are on their way to the disk. So many messages may be in
# either state, and are sent again after a crash.
_UNSETTLED = 128
_UNSETTLED_OF_CHANNEL = 256
# The number of messages that are read from the store at first; it doubles each time. Most queues hold one
# message, and the queues of receivers that hang must not fill the memory.
_FIRST_CLAIM = 8
_BLOCKED_PAUSE_MS = 30_000
_UNREADABLE_STORE_PAUSE_MS = 5_000

_GIVEN_UP = Outcome(Verdict.FAILED, "no answer in time")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The collaborators that all lanes share."""

    store: OutboxStore
    delivery: Delivery
    admission: Admission
    schedule: Schedule
    troubled: Troubled
    clock: Clock
    leases: Leases
    on_idle: Callable[["Lane"], None]
    withheld: Withheld = field(default_factory=Withheld)


class Lane:
    """Claims a queue's messages in memory: while this process has the lease, no other one sends them.

    A lane exists while a message is under way. A queue that only waits for a place needs none.
    """

    def __init__(self, claimant: Claimant, shared: Surroundings) -> None:
        self.queue = claimant.queue
        self._client = claimant.client
        self._shared = shared
        self._claimed: deque[DueMessage] = deque()
        self._claiming = asyncio.Lock()
        is_channel = not claimant.host
        self._most_at_once = _most_at_once(claimant)
        self._most_unsettled = _UNSETTLED_OF_CHANNEL if is_channel else _UNSETTLED
        self._claim_size = self._most_unsettled if is_channel else _FIRST_CLAIM
        self._in_flight: set[int] = set()
        self._maybe_more = True
        self._more_has_failed = claimant.has_failed
        self._is_blocked = False
        self._is_closed = False
        self._tenure = shared.leases.tenure(self.queue.destination)
        self.workers: set[asyncio.Task[None]] = set()

    def rouse(self, has_failed: bool) -> None:
        """Read the store again: a message was added, or a retry has become due."""
        self._more_has_failed = has_failed and (self._more_has_failed or not self._maybe_more)
        if not has_failed and self._claimed and self._claimed[-1].attempts > 0:
            self._claimed.clear()  # a new message goes before them, and they are still due
        self._maybe_more = True
        self._ask()

    def accept(self, place: Place) -> None:
        """Send with this place as long as there are messages, and no other queue waits for the place."""
        task = asyncio.create_task(self._work(place))
        self.workers.add(task)
        task.add_done_callback(self._worker_left)

    def let_go(self, row_id: int) -> None:
        """Do not send the message unless it is read from the store again.

        Raises MessageBeingSentError while an attempt is under way, or its outcome on its way to the disk.
        """
        if row_id in self._in_flight:
            raise MessageBeingSentError
        self._claimed = deque(due for due in self._claimed if due.row_id != row_id)

    def close(self) -> None:
        """Begin no more attempts; those under way go on."""
        self._is_closed = True

    def rest_ms(self) -> int:
        """For how long no message is sent, and the claimed ones stay due; 0 when the lane may send."""
        if self._is_blocked:
            return _BLOCKED_PAUSE_MS
        return self._shared.delivery.pause_left_ms(self.queue.destination)

    def claimant(self) -> Claimant:
        """The queue as it asks for a place: with the client of the message that it would send next."""
        if self._claimed:
            head = self._claimed[0]
            return Claimant(self.queue, head.message.client, head.attempts > 0)
        return Claimant(self.queue, self._client, self._more_has_failed)

    def _ask(self) -> None:
        """Ask for another place if there may be a message to send."""
        if self._is_closed or not (self._claimed or self._maybe_more) or self.rest_ms():
            return
        if len(self.workers) < self._at_once() and len(self._in_flight) < self._most_unsettled:
            self._shared.admission.ask(self.claimant(), had_a_turn=bool(self.workers))

    def _at_once(self) -> int:
        return 1 if self.queue in self._shared.troubled else self._most_at_once

    async def _work(self, place: Place) -> None:
        try:
            while (message := await self._next(place)) is not None:
                self._in_flight.add(message.row_id)
                self._ask()
                await self._deliver(message, place)
                if len(self.workers) > self._at_once() or not self._shared.admission.renew(place):
                    return
        finally:
            self._shared.admission.leave(place)

    def _worker_left(self, task: asyncio.Task[None]) -> None:
        self.workers.discard(task)
        self._look_on()
        if not task.cancelled():
            task.result()

    def _look_on(self) -> None:
        self._ask()
        if not self.workers and not self._in_flight:
            self._shared.on_idle(self)

    async def _next(self, place: Place) -> DueMessage | None:
        """The message to send with this place, or None if there is none for this kind of place."""
        await self._shared.delivery.caught_up()
        if not self._has_lease() and not await self._take_lease():
            return None
        if not self._claimed and self._maybe_more and self._may_start():
            await self._claim()
        if not self._claimed or not self._may_start():
            return None
        if place.claimant.host and place.claimant.has_failed != (self._claimed[0].attempts > 0):
            return None
        return self._claimed.popleft()

    def _has_lease(self) -> bool:
        """Whether this process has had the destination ever since the messages were claimed."""
        return self._tenure == self._shared.leases.tenure(self.queue.destination) != 0

    async def _take_lease(self) -> bool:
        """Claim the messages anew: another process may have sent them. False while that one has them."""
        leases, destination = self._shared.leases, self.queue.destination
        is_here = await leases.take(destination)
        if self._tenure != leases.tenure(destination) or not is_here:
            self._tenure = leases.tenure(destination)
            self._claimed.clear()
            self._maybe_more = is_here
        return is_here

    def _may_start(self) -> bool:
        if not self._has_lease() or self._is_closed or len(self._in_flight) >= self._most_unsettled:
            return False
        return not self.rest_ms()

    async def _claim(self) -> None:
        async with self._claiming:
            if self._claimed or not self._maybe_more:
                return
            # A message in flight may be settled by the time the rows are read, and may still be among them.
            busy = set(self._in_flight)
            limit = self._claim_size + len(busy)
            self._maybe_more = False
            withheld = self._shared.withheld
            given_back, tenure = withheld.given_back, self._tenure
            now_ms = self._shared.clock.now_ms()
            try:
                messages = await self._shared.store.next_messages(self.queue, now_ms, limit)
            except Exception as error:
                log.warning("webhooks_not_read", destination=self.queue.destination, error=str(error))
                self._shared.schedule.put(self.claimant(), now_ms + _UNREADABLE_STORE_PAUSE_MS)
                return
            is_outdated = withheld.given_back != given_back or tenure != self._tenure
            if is_outdated or not self._has_lease():  # these rows may be deleted by now, or changed
                self._maybe_more = True
                return
            if len(messages) == limit:
                self._more_has_failed = not self._maybe_more and messages[-1].attempts > 0
                self._maybe_more = True
            self._claimed.extend(
                due for due in messages if due.row_id not in busy and due.row_id not in withheld
            )
            self._claim_size = min(2 * self._claim_size, self._most_unsettled)

    async def _deliver(self, message: DueMessage, place: Place) -> None:
        outcome = await self._attempt(message, place)
        self._note(outcome.verdict)
        if outcome.verdict is Verdict.DELIVERED:
            self._shared.delivery.delivered(message).add_done_callback(partial(self._settled, message.row_id))
            return
        next_attempt_at_ms = await self._shared.delivery.failed(message, outcome)
        self._in_flight.discard(message.row_id)
        if next_attempt_at_ms is not None:
            claimant = Claimant(self.queue, message.message.client, has_failed=True)
            self._shared.schedule.put(claimant, next_attempt_at_ms)

    async def _attempt(self, message: DueMessage, place: Place) -> Outcome:
        if not place.claimant.host:
            return await self._shared.delivery.send(message)
        try:
            async with asyncio.timeout(None) as place.limit:
                return await self._shared.delivery.send(message)
        except TimeoutError:  # others wait for the place
            return _GIVEN_UP
        finally:
            place.limit = None

    def _note(self, verdict: Verdict) -> None:
        if verdict is Verdict.BLOCKED:
            self._is_blocked = True
        if verdict is not Verdict.REFUSED:
            self._shared.troubled.note(self.queue, verdict in (Verdict.FAILED, Verdict.BLOCKED))

    def _settled(self, row_id: int, _: asyncio.Future[None]) -> None:
        was_full = len(self._in_flight) >= self._most_unsettled
        self._in_flight.discard(row_id)
        if was_full or not self.workers:
            self._look_on()


def _most_at_once(claimant: Claimant) -> int:
    if not claimant.host:
        return _AT_ONCE_OF_CHANNEL
    return _AT_ONCE_OF_CHANNEL_AT_HOST if " " in claimant.queue.destination else _AT_ONCE
