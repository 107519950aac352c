"""The lanes under way: a queue with a message under way has one, and any other queue asks for a place."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial

import structlog

from bridge_server.kernel.background import cancelled
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.fairness import Admission, Limits, Place
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import Claimant, DueMessage, MessageBeingSentError, Queue
from bridge_server.outbox.queues import Leases, Schedule, Troubled, Withheld
from bridge_server.outbox.store import OutboxStore

log = structlog.get_logger()

_UNREADABLE_STORE_PAUSE_MS = 5_000
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
_GIVEN_UP = Outcome(Verdict.FAILED, "no answer in time")
_ROUSED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The collaborators of every lane."""

    store: OutboxStore
    delivery: Delivery
    admission: Admission
    schedule: Schedule
    clock: Clock
    leases: Leases
    troubled: Troubled = field(default_factory=Troubled)
    withheld: Withheld = field(default_factory=Withheld)


class _Claimed:
    """One queue's messages in memory that are due, in the order in which they are sent. While this process
    has the lease of their destination, no other process sends them. They are read from the store `first` at
    once, then twice as many each time, up to `most`.
    """

    def __init__(self, claimant: Claimant, shared: _Surroundings, first: int, most: int) -> None:
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


class Lane:
    """Sends a queue's messages: some at a time, one while the queue fails, until nothing is due. A lane
    exists while a message is under way. A queue that only waits for a place needs none. `on_idle` is called
    when no message is under way any more.
    """

    def __init__(self, claimant: Claimant, shared: _Surroundings, on_idle: Callable[["Lane"], None]) -> None:
        self.queue = claimant.queue
        self._shared = shared
        self._on_idle = on_idle
        is_channel = not claimant.host
        self._most_at_once = _most_at_once(claimant)
        self._most_unsettled = _UNSETTLED_OF_CHANNEL if is_channel else _UNSETTLED
        first_claim = self._most_unsettled if is_channel else _FIRST_CLAIM
        self._claimed = _Claimed(claimant, shared, first_claim, self._most_unsettled)
        self._in_flight: set[int] = set()
        self._is_blocked = False
        self._is_closed = False
        self.workers: set[asyncio.Task[None]] = set()

    def rouse(self, has_failed: bool) -> None:
        """Read the store again: a message was added, or a retry has become due."""
        self._claimed.rouse(has_failed)
        self._ask()

    def accept(self, place: Place) -> None:
        """Send with this place as long as there are messages, and no other queue waits for the place."""
        task = asyncio.create_task(self._work(place))
        self.workers.add(task)
        task.add_done_callback(self._worker_left)

    def let_go(self, row_id: int) -> None:
        """Do not send the message unless it is read from the store again. Raises MessageBeingSentError."""
        if row_id in self._in_flight:
            raise MessageBeingSentError
        self._claimed.let_go(row_id)

    def close(self) -> None:
        """Begin no more attempts; attempts under way go on."""
        self._is_closed = True

    def rest_ms(self) -> int:
        """The time for which no message is sent, and claimed messages stay due; 0 when the lane may send."""
        if self._is_blocked:
            return _BLOCKED_PAUSE_MS
        return self._shared.delivery.pause_left_ms(self.queue.destination)

    def claimant(self) -> Claimant:
        """The queue as it asks for a place: with the client of the message that it would send next."""
        return self._claimed.claimant()

    def _ask(self) -> None:
        """Ask for another place if there may be a message to send."""
        if self._is_closed or not self._claimed.may_have_any or self.rest_ms():
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
        self._check_on()
        if not task.cancelled():
            task.result()

    def _check_on(self) -> None:
        self._ask()
        if not self.workers and not self._in_flight:
            self._on_idle(self)

    async def _next(self, place: Place) -> DueMessage | None:
        """The message to send with this place, or None if there is none for this kind of place."""
        await self._shared.delivery.settling.caught_up()
        if not self._claimed.has_lease() and not await self._claimed.take_lease():
            return None
        if self._claimed.has_to_be_read and self._may_start():
            await self._claimed.read(self._in_flight)
        head = self._claimed.head
        if head is None or not self._may_start():
            return None
        if place.claimant.host and place.claimant.has_failed != (head.attempts > 0):
            return None
        return self._claimed.take()

    def _may_start(self) -> bool:
        is_full = len(self._in_flight) >= self._most_unsettled
        return self._claimed.has_lease() and not (self._is_closed or is_full or self.rest_ms())

    async def _deliver(self, message: DueMessage, place: Place) -> None:
        outcome = await self._attempt(message, place)
        if outcome.verdict is Verdict.BLOCKED:
            self._is_blocked = True
        if outcome.verdict is not Verdict.REFUSED:
            self._shared.troubled.note(self.queue, outcome.verdict in (Verdict.FAILED, Verdict.BLOCKED))
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

    def _settled(self, row_id: int, _: asyncio.Future[None]) -> None:
        was_full = len(self._in_flight) >= self._most_unsettled
        self._in_flight.discard(row_id)
        if was_full or not self.workers:
            self._check_on()


def _most_at_once(claimant: Claimant) -> int:
    if not claimant.host:
        return _AT_ONCE_OF_CHANNEL
    return _AT_ONCE_OF_CHANNEL_AT_HOST if " " in claimant.queue.destination else _AT_ONCE


class Lanes:
    """Sends the messages of each queue that is attended to, in a lane, until the lanes are closed."""

    def __init__(
        self, store: OutboxStore, delivery: Delivery, limits: Limits, clock: Clock, leases: Leases
    ) -> None:
        self._delivery = delivery
        self._most_waiting = limits.waiting
        self._clock = clock
        self._leases = leases
        self._admission = Admission(limits, delivery.known_hosts.__contains__, self._begin)
        self.schedule = Schedule(limits.waiting)
        """The times at which queues are attended to."""
        self._shared = _Surroundings(store, delivery, self._admission, self.schedule, clock, leases)
        self._lanes: dict[Queue, Lane] = {}
        self._closed: list[Lane] = []

    def attend(self, claimant: Claimant) -> None:
        """Send the messages of a queue that are due, as soon as there is a place for it."""
        lane = self._lanes.get(claimant.queue)
        if lane is not None:
            lane.rouse(claimant.has_failed)
        elif not self._leases.is_elsewhere(claimant.queue.destination):
            self._admission.ask(claimant)

    def attend_scheduled(self, now_ms: int) -> list[Claimant]:
        """Attend to the queues whose time has come, and return them: later times are not scheduled yet."""
        due = self.schedule.take_due(now_ms, _ROUSED_AT_ONCE)
        for claimant in due:
            self.attend(claimant)
        return due

    def has(self, queue: Queue) -> bool:
        """Whether the queue has a message under way."""
        return queue in self._lanes

    def destinations(self) -> set[str]:
        """The destinations with a message under way."""
        return {queue.destination for queue in self._lanes}

    def is_idle(self, now_ms: int) -> bool:
        """Whether no queue is sent, waits for a place, or is scheduled for a time that has come."""
        return not (self._lanes or len(self._admission) or self.schedule.has_due(now_ms))

    @property
    def has_no_place(self) -> bool:
        """Whether a queue that asked for a place was refused: it must be found in the store again."""
        return self._admission.has_turned_away

    def forget_turned_away(self) -> None:
        """Begin to note anew whether a queue finds no room in memory."""
        self._admission.has_turned_away = self.schedule.has_turned_away = False

    def has_room_again(self) -> bool:
        """Whether a queue found no room, and half of the room is free by now."""
        half = self._most_waiting // 2
        return (self._admission.has_turned_away and len(self._admission) < half) or (
            self.schedule.has_turned_away and len(self.schedule) < half
        )

    @contextmanager
    def withheld(self, row_id: int, claimant: Claimant) -> Iterator[None]:
        """Inside the block the message of the claimant's queue is not sent. Raises MessageBeingSentError."""
        lane = self._lanes.get(claimant.queue)
        if lane is not None:
            lane.let_go(row_id)
        try:
            with self._shared.withheld.row(row_id):
                yield
        finally:
            self.attend(claimant)

    def close(self) -> None:
        """Begin no more attempts; attempts under way go on."""
        self._admission.close()
        self._closed = list(self._lanes.values())
        for lane in self._closed:
            lane.close()

    async def end(self, grace_seconds: float) -> None:
        """Give the attempts under way `grace_seconds`, then cancel the rest: these messages stay due."""
        workers = {worker for lane in self._closed for worker in lane.workers}
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                if workers:
                    await asyncio.wait(workers)
                await self._delivery.settling.idle()
        await cancelled(workers)

    def _begin(self, place: Place) -> None:
        queue = place.claimant.queue
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = Lane(place.claimant, self._shared, self._end)
        lane.accept(place)

    def _end(self, lane: Lane) -> None:
        """Forget a lane that has no message under way, and read its queue again after its rest."""
        del self._lanes[lane.queue]
        rest_ms = lane.rest_ms()
        if rest_ms:
            self.schedule.put(lane.claimant(), self._clock.now_ms() + rest_ms)
