"""Sends every message of the outbox when it is due: one lane for each queue that is being sent."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any

import structlog

from bridge_server.kernel.background import cancelled
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.events import Events
from bridge_server.outbox.admission import Admission, Limits
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.errors import MessageBeingSentError
from bridge_server.outbox.events import OutboxGrew
from bridge_server.outbox.known_hosts import MOST_HOSTS
from bridge_server.outbox.lane import Lane, Surroundings
from bridge_server.outbox.leases import AllDestinations, Leases
from bridge_server.outbox.models import Claimant, GoneHandlers, PendingQueue, Queue
from bridge_server.outbox.places import Place
from bridge_server.outbox.queue_round import QueueRound
from bridge_server.outbox.schedule import Schedule
from bridge_server.outbox.stock import Stock
from bridge_server.outbox.store import OutboxStore
from bridge_server.outbox.troubled import Troubled

_LANES_ROUSED_AT_ONCE = 1_000
_MOMENT_SECONDS = 0.002
_RECOUNTS_SHARE = 20
"""Recounts take no more than this part of the time."""
_TICKS_BETWEEN_LOOKS_FOR_TURNED_AWAY = 5

log = structlog.get_logger()


class Dispatcher:
    """Delivers the messages of the store, from `start` to `stop`.

    `gone_handlers` are called with messages that were answered 410, by purpose. `chance` is a source of
    numbers in [0, 1) for spreading the attempts.
    """

    def __init__(
        self,
        store: OutboxStore,
        sender: Sender,
        events: Events,
        clock: Clock,
        gone_handlers: GoneHandlers,
        chance: Callable[[], float] = random.random,
        grace_seconds: float = 2.0,
        limits: Limits | None = None,
        leases: Leases | None = None,
    ) -> None:
        self._store = store
        self._leases = leases or AllDestinations()
        self._events = events
        self._clock = clock
        self._stock = Stock()
        self._make_delivery = partial(Delivery, store, sender, clock, gone_handlers, chance)
        self._limits = limits or Limits()
        self._grace_seconds = grace_seconds
        self._prepare()

    def _prepare(self) -> None:
        """Begin with nothing under way."""
        self._delivery = self._make_delivery()
        self._admission = Admission(self._limits, self._delivery.known_hosts.__contains__, self._begin)
        self._schedule = Schedule(self._limits.waiting)
        self._surroundings = Surroundings(
            self._store,
            self._delivery,
            self._admission,
            self._schedule,
            Troubled(),
            self._clock,
            self._leases,
            self._end,
        )
        self._lanes: dict[Queue, Lane] = {}
        self._last_lanes: list[Lane] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._round = QueueRound(self._store)
        self._running = self._has_missed_events = False

    async def start(self) -> None:
        """Resume the pending messages and wait for new ones.

        Raises UnavailableError when the store cannot be read.
        """
        self._stock.subscribe_to(self._events)
        self._events.subscribe(OutboxGrew, self._on_growth)
        self._events.subscribe_elsewhere(OutboxGrew, self._on_growth_elsewhere)
        self._events.on_gap(self._recount_soon)
        await self._resume()

    async def _resume(self) -> None:
        self._running = True
        self._delivery.known_hosts.restore(await self._store.answering_hosts(MOST_HOSTS))
        await self.recount()
        self._spawn(self._tick_forever())

    def begin_nothing(self) -> None:
        """Begin no more attempts; those under way go on."""
        if self._running:
            self._running = False
            self._admission.close()
            self._last_lanes = list(self._lanes.values())
            for lane in self._last_lanes:
                lane.close()
            for task in self._tasks:
                task.cancel()

    async def stop(self) -> None:
        """Begin no more attempts, give those under way `grace_seconds`, cancel the rest: it stays due."""
        self.begin_nothing()
        await self._end_all(self._grace_seconds)

    async def _end_all(self, grace_seconds: float) -> None:
        await cancelled(self._tasks)
        workers = {worker for lane in self._last_lanes for worker in lane.workers}
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                if workers:
                    await asyncio.wait(workers)
                await self._delivery.idle()
        await cancelled(workers)
        await self._delivery.close()

    async def wake(self) -> None:
        """Send messages that have become due by the clock; called every second while running."""
        now_ms = self._clock.now_ms()
        due = self._schedule.take_due(now_ms, _LANES_ROUSED_AT_ONCE)
        for claimant in due:
            self._attend(claimant)
        if due and self._running:
            self._spawn(self._plan_what_follows(due, now_ms))

    async def settle(self) -> None:
        """Send all that is due by the clock; return once nothing is under way."""
        await self.recount()
        while self._running and (
            self._lanes
            or len(self._admission)
            or len(self._tasks) > 1  # one of them ticks
            or self._schedule.has_due(self._clock.now_ms())
        ):
            await asyncio.sleep(_MOMENT_SECONDS)
            await self.wake()
        await self._delivery.idle()

    @asynccontextmanager
    async def withheld(self, row_id: int, claimant: Claimant, *, is_due: bool = True) -> AsyncIterator[None]:
        """Inside the block the message of the claimant's queue is not sent: its row may be changed.

        Raises MessageBeingSentError if it is being sent, or if it `is_due` and another process sends to its
        destination.
        """
        if is_due and not await self._leases.take(claimant.queue.destination):
            raise MessageBeingSentError
        lane = self._lanes.get(claimant.queue)
        if lane is not None:
            lane.let_go(row_id)
        try:
            with self._surroundings.withheld.row(row_id):
                yield
        finally:
            self._attend(claimant)

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """Give up everything under way, and begin anew after the block, in which the store is emptied."""
        self.begin_nothing()
        await self._end_all(0.0)
        try:
            yield
        finally:
            self._prepare()
            await self._resume()

    async def recount(self) -> None:
        """Take the counts and times from the store, which another process may have changed, and send what is
        due. When more is due than can wait in memory, the next recount goes on with the rest.
        """
        self._has_missed_events = False
        await self._leases.look()
        await self._store.count()
        self._schedule.has_turned_away = self._admission.has_turned_away = False
        await self._round.go(self._clock.now_ms(), self._plan_page)

    def destinations_in_use(self) -> Collection[str]:
        """The destinations with a message under way, and those that asked to be left alone for a while."""
        return {queue.destination for queue in self._lanes} | self._delivery.resting()

    async def stock(self) -> Stock:
        """The numbers of pending messages and of dead letters, where this process alone changes them."""
        return self._stock

    def figures(self) -> dict[str, int]:
        """The operator's figures: pending messages (`due`), dead letters (`dead`), and the attempts since the
        start that `delivered` and that `failed`.
        """
        done = self._delivery.figures
        return {
            "due": self._stock.due,
            "dead": self._stock.dead,
            "delivered": done.delivered,
            "failed": done.failed,
        }

    def _on_growth(self, event: OutboxGrew) -> None:
        if self._running:
            queue = Queue(event.destination, event.queue)
            self._attend(Claimant(queue, event.client, event.were_tried))

    def _on_growth_elsewhere(self, event: OutboxGrew) -> None:
        """The process that queued the messages sends them, unless their destination is or was one of here."""
        lane = self._lanes.get(Queue(event.destination, event.queue))
        if self._running and (lane is not None or self._leases.was_here(event.destination)):
            self._on_growth(event)

    def _recount_soon(self) -> None:
        self._has_missed_events = True

    def _plan_page(self, page: Iterable[PendingQueue]) -> bool:
        """Send or schedule these queues. Returns whether there was room for all of them."""
        for owed in page:
            if owed.is_due:
                self._attend(owed.claimant)
            if owed.next_due_ms is not None:
                self._schedule.put(owed.claimant, owed.next_due_ms)
        return not self._admission.has_turned_away

    async def _plan_what_follows(self, roused: Iterable[Claimant], now_ms: int) -> None:
        """Schedule the queues again: only the earliest time of each was remembered, and it has come."""
        try:
            for claimant in roused:
                next_due_ms = await self._store.next_due_ms(claimant.queue, now_ms)
                if next_due_ms is not None:
                    self._schedule.put(claimant, next_due_ms)
        except Exception as error:  # the next recount finds them
            log.warning("outbox_times_not_read", error=str(error))

    def _attend(self, claimant: Claimant) -> None:
        lane = self._lanes.get(claimant.queue)
        if lane is not None:
            lane.rouse(claimant.has_failed)
        elif not self._leases.is_elsewhere(claimant.queue.destination):
            self._admission.ask(claimant)

    def _begin(self, place: Place) -> None:
        """Send the messages of a queue that was given a place."""
        queue = place.claimant.queue
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = Lane(place.claimant, self._surroundings)
        lane.accept(place)

    def _end(self, lane: Lane) -> None:
        """Forget a lane that has no message under way, and look at its queue again after its rest."""
        del self._lanes[lane.queue]
        rest_ms = lane.rest_ms()
        if rest_ms:
            self._schedule.put(lane.claimant(), self._clock.now_ms() + rest_ms)

    async def _tick_forever(self) -> None:
        ticks, recount_at = 0, self._leases.ticks_to_recount()
        while True:
            await asyncio.sleep(self._clock.tick_seconds)
            ticks += 1
            try:
                if ticks >= recount_at or self._has_to_look_again(ticks):
                    recount_at = ticks + self._leases.ticks_to_recount()
                    recount_at += await self._ticks_of_recount() * _RECOUNTS_SHARE
                await self.wake()
            except Exception as error:  # the next tick tries again
                log.warning("outbox_tick_failed", error=str(error))

    async def _ticks_of_recount(self) -> int:
        """Recount; returns how many ticks that took."""
        started = perf_counter()
        await self.recount()
        return round((perf_counter() - started) / self._clock.tick_seconds)

    def _has_to_look_again(self, ticks: int) -> bool:
        """Whether other processes may have changed anything, or a queue was refused and a place is free."""
        if self._has_missed_events:
            return True
        if ticks % _TICKS_BETWEEN_LOOKS_FOR_TURNED_AWAY:
            return False
        half = self._limits.waiting // 2
        return (self._admission.has_turned_away and len(self._admission) < half) or (
            self._schedule.has_turned_away and len(self._schedule) < half
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
