"""The lanes under way: a queue with a message under way has one, and any other queue asks for a place."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bridge_server.kernel.background import cancelled
from bridge_server.kernel.clock import Clock
from bridge_server.outbox.admission import Admission, Limits
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.lane import Lane
from bridge_server.outbox.leases import Leases
from bridge_server.outbox.models import Claimant, Queue
from bridge_server.outbox.places import Place
from bridge_server.outbox.schedule import Schedule
from bridge_server.outbox.store import OutboxStore
from bridge_server.outbox.surroundings import Surroundings

_ROUSED_AT_ONCE = 1_000


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
        self._shared = Surroundings(store, delivery, self._admission, self.schedule, clock, leases)
        self._lanes: dict[Queue, Lane] = {}
        self._closed: list[Lane] = []

    def __len__(self) -> int:
        return len(self._lanes)

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
        """Inside the block the message of the claimant's queue is not sent.

        Raises MessageBeingSentError if it is being sent.
        """
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
                await self._delivery.idle()
        await cancelled(workers)

    def _begin(self, place: Place) -> None:
        """Send the messages of a queue that was given a place."""
        queue = place.claimant.queue
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = Lane(place.claimant, self._shared, self._end)
        lane.accept(place)

    def _end(self, lane: Lane) -> None:
        """Forget a lane that has no message under way, and look at its queue again after its rest."""
        del self._lanes[lane.queue]
        rest_ms = lane.rest_ms()
        if rest_ms:
            self.schedule.put(lane.claimant(), self._clock.now_ms() + rest_ms)
