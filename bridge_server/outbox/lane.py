"""One queue's deliveries: some at a time, one while it fails, until nothing is due."""

import asyncio
from collections.abc import Callable
from functools import partial

from bridge_server.outbox.claimed import Claimed
from bridge_server.outbox.errors import MessageBeingSentError
from bridge_server.outbox.models import Claimant, DueMessage
from bridge_server.outbox.places import Place
from bridge_server.outbox.surroundings import Surroundings
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

_GIVEN_UP = Outcome(Verdict.FAILED, "no answer in time")


class Lane:
    """Sends a queue's messages.

    A lane exists while a message is under way. A queue that only waits for a place needs none. `on_idle` is
    called when no message is under way any more.
    """

    def __init__(self, claimant: Claimant, shared: Surroundings, on_idle: Callable[["Lane"], None]) -> None:
        self.queue = claimant.queue
        self._shared = shared
        self._on_idle = on_idle
        is_channel = not claimant.host
        self._most_at_once = _most_at_once(claimant)
        self._most_unsettled = _UNSETTLED_OF_CHANNEL if is_channel else _UNSETTLED
        first_claim = self._most_unsettled if is_channel else _FIRST_CLAIM
        self._claimed = Claimed(claimant, shared, first_claim, self._most_unsettled)
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
        """Do not send the message unless it is read from the store again.

        Raises MessageBeingSentError while an attempt is under way, or its outcome on its way to the disk.
        """
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
        self._look_on()
        if not task.cancelled():
            task.result()

    def _look_on(self) -> None:
        self._ask()
        if not self.workers and not self._in_flight:
            self._on_idle(self)

    async def _next(self, place: Place) -> DueMessage | None:
        """The message to send with this place, or None if there is none for this kind of place."""
        await self._shared.delivery.caught_up()
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
