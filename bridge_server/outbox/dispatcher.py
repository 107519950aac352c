"""Sends every message of the outbox when it is due: one lane for each queue that is being sent."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import structlog

from bridge_server.kernel.background import cancelled
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.events import Events
from bridge_server.outbox import delivery, fairness, lanes, queues
from bridge_server.outbox.models import Claimant, MessageBeingSentError, OutboxGrew, PendingQueue, Queue
from bridge_server.outbox.store import OutboxStore, Stock

_PAGE = 1_000
_FIRST = Queue("", "")
_MOMENT_SECONDS = 0.002
_RECOUNTS_SHARE = 20
"""Recounts take no more than this part of the time."""
_TICKS_BETWEEN_CHECKS_FOR_TURNED_AWAY = 5

log = structlog.get_logger()


class Dispatcher:
    """Delivers the messages of the store, from `start` to `stop`. `make_delivery` makes what attempts each
    message, anew when test mode has emptied the database.
    """

    def __init__(
        self,
        store: OutboxStore,
        make_delivery: Callable[[], delivery.Delivery],
        events: Events,
        clock: Clock,
        limits: fairness.Limits | None = None,
        leases: queues.Leases | None = None,
    ) -> None:
        self._store = store
        self._leases = leases or queues.AllDestinations()
        self._events = events
        self._clock = clock
        self._stock = Stock()
        self._make_delivery = make_delivery
        self._limits = limits or fairness.Limits()
        self._prepare()

    def _prepare(self) -> None:
        self._delivery = self._make_delivery()
        self._lanes = lanes.Lanes(self._store, self._delivery, self._limits, self._clock, self._leases)
        self._tasks: set[asyncio.Task[None]] = set()
        self._round = _QueueRound(self._store)
        self._running = self._has_missed_events = False

    async def start(self) -> None:
        """Resume the pending messages and wait for new ones. Raises UnavailableError."""
        self._stock.subscribe_to(self._events)
        self._events.subscribe(OutboxGrew, self._on_growth)
        self._events.subscribe_elsewhere(OutboxGrew, self._on_growth_elsewhere)
        self._events.on_gap(self._recount_soon)
        await self._resume()

    async def _resume(self) -> None:
        self._running = True
        self._delivery.known_hosts.restore(await self._store.answering_hosts(delivery.MOST_HOSTS))
        await self.recount()
        self._spawn(self._tick_forever())

    def begin_nothing(self) -> None:
        """Begin no more attempts; attempts under way go on."""
        if self._running:
            self._running = False
            self._lanes.close()
            for task in self._tasks:
                task.cancel()

    async def stop(self) -> None:
        """Begin no more attempts, give attempts under way a little time, cancel the rest: it stays due."""
        self.begin_nothing()
        await self._end_all(self._limits.grace_seconds)

    async def _end_all(self, grace_seconds: float) -> None:
        await cancelled(self._tasks)
        await self._lanes.end(grace_seconds)
        await self._delivery.settling.close()

    async def wake(self) -> None:
        """Send messages that have become due by the clock; called every second while running."""
        now_ms = self._clock.now_ms()
        due = self._lanes.attend_scheduled(now_ms)
        if due and self._running:
            self._spawn(self._plan_what_follows(due, now_ms))

    async def settle(self) -> None:
        """Send all that is due by the clock; return once nothing is under way."""
        await self.recount()
        while self._running and (
            not self._lanes.is_idle(self._clock.now_ms()) or len(self._tasks) > 1  # one of them ticks
        ):
            await asyncio.sleep(_MOMENT_SECONDS)
            await self.wake()
        await self._delivery.settling.idle()

    @asynccontextmanager
    async def withheld(self, row_id: int, claimant: Claimant, *, is_due: bool = True) -> AsyncIterator[None]:
        """Inside the block the message of the claimant's queue is not sent: its row may be changed. Raises
        MessageBeingSentError if it is being sent, or if it `is_due` and its destination is another process's.
        """
        if is_due and not await self._leases.take(claimant.queue.destination):
            raise MessageBeingSentError
        with self._lanes.withheld(row_id, claimant):
            yield

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
        await self._leases.refresh()
        await self._store.count()
        self._lanes.forget_turned_away()
        await self._round.go(self._clock.now_ms(), self._plan_page)

    def destinations_in_use(self) -> Collection[str]:
        """The destinations with a message under way, and destinations that asked for a pause."""
        return self._lanes.destinations() | self._delivery.resting()

    async def stock(self) -> Stock:
        """The numbers of pending messages and of dead letters, where this process alone changes them."""
        return self._stock

    def figures(self) -> dict[str, int]:
        """The operator's figures: messages that are `due` or `dead`, attempts `delivered` or `failed`."""
        stock, done = self._stock, self._delivery.figures
        return {"due": stock.due, "dead": stock.dead, "delivered": done.delivered, "failed": done.failed}

    def _on_growth(self, event: OutboxGrew) -> None:
        if self._running:
            queue = Queue(event.destination, event.queue)
            self._lanes.attend(Claimant(queue, event.client, event.were_tried))

    def _on_growth_elsewhere(self, event: OutboxGrew) -> None:
        """The process that queued the messages sends them, unless their destination is or was one of here."""
        is_under_way = self._lanes.has(Queue(event.destination, event.queue))
        if is_under_way or self._leases.was_here(event.destination):
            self._on_growth(event)

    def _recount_soon(self) -> None:
        self._has_missed_events = True

    def _plan_page(self, page: Iterable[PendingQueue]) -> bool:
        """Send or schedule these queues. Returns whether there was room for all of them."""
        for pending in page:
            if pending.is_due:
                self._lanes.attend(pending.claimant)
            if pending.next_due_ms is not None:
                self._lanes.schedule.put(pending.claimant, pending.next_due_ms)
        return not self._lanes.has_no_place

    async def _plan_what_follows(self, roused: Iterable[Claimant], now_ms: int) -> None:
        """Schedule the queues again: only the earliest time of each was remembered, and it has come."""
        try:
            for claimant in roused:
                next_due_ms = await self._store.next_due_ms(claimant.queue, now_ms)
                if next_due_ms is not None:
                    self._lanes.schedule.put(claimant, next_due_ms)
        except Exception as error:  # the next recount finds them
            log.warning("outbox_times_not_read", error=str(error))

    async def _tick_forever(self) -> None:
        ticks, recount_at = 0, self._leases.ticks_to_recount()
        while True:
            await asyncio.sleep(self._clock.tick_seconds)
            ticks += 1
            try:
                if ticks >= recount_at or self._has_to_read_again(ticks):
                    recount_at = ticks + self._leases.ticks_to_recount()
                    started = perf_counter()
                    await self.recount()
                    took_ticks = round((perf_counter() - started) / self._clock.tick_seconds)
                    recount_at += took_ticks * _RECOUNTS_SHARE
                await self.wake()
            except Exception as error:  # the next tick tries again
                log.warning("outbox_tick_failed", error=str(error))

    def _has_to_read_again(self, ticks: int) -> bool:
        """Whether other processes may have changed anything, or a queue was refused and a place is free."""
        if self._has_missed_events:
            return True
        return ticks % _TICKS_BETWEEN_CHECKS_FOR_TURNED_AWAY == 0 and self._lanes.has_room_again()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _QueueRound:
    """A round through the queues with messages, page by page; the next one continues one that broke off."""

    def __init__(self, store: OutboxStore) -> None:
        self._store = store
        self._after = _FIRST

    async def go(self, now_ms: int, plan: Callable[[Iterable[PendingQueue]], bool]) -> None:
        """Hand over each page of queues, as of this time, until all were seen or `plan` returns False."""
        begin = after = self._after
        has_wrapped = begin == _FIRST
        self._after = _FIRST
        while not has_wrapped or begin == _FIRST or after < begin:
            page = await self._store.pending_queues(now_ms, after, _PAGE)
            if not plan(page):
                self._after = after
                return
            if len(page) == _PAGE:
                after = page[-1].claimant.queue
            elif has_wrapped:
                return
            else:
                has_wrapped, after = True, _FIRST
