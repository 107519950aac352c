"""One destination's deliveries: a few at a time, one while it fails, until nothing is due."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.models import DueMessage, Verdict
from bridge_server.outbox.places import Places
from bridge_server.outbox.schedule import Schedule
from bridge_server.outbox.store import OutboxStore

_AT_ONCE = 4
_PAGE = 16
_UNREADABLE_STORE_PAUSE_MS = 5_000

log = structlog.get_logger()


class Lane:
    """Claims a destination's messages in memory: this process is the only one that sends them."""

    def __init__(
        self,
        destination: str,
        store: OutboxStore,
        delivery: Delivery,
        places: Places,
        schedule: Schedule,
        clock: Clock,
    ) -> None:
        self._destination = destination
        self._store = store
        self._delivery = delivery
        self._places = places
        self._schedule = schedule
        self._clock = clock
        self._claimed: deque[DueMessage] = deque()
        self._changed = asyncio.Event()
        self.in_flight: dict[int, asyncio.Task[Verdict]] = {}

    def rouse(self) -> None:
        """Look again: something was added or has become due."""
        self._changed.set()

    async def run(self) -> None:
        """Deliver until nothing is due or in flight; when to look again is then in the schedule.

        What is in flight goes on when this is cancelled.
        """
        while True:
            self._changed.clear()
            if len(self.in_flight) < self._at_once():
                if not self._claimed:
                    await self._claim()
                if self._claimed:
                    await self._start_one()
                    continue
                if not self.in_flight and not self._changed.is_set():
                    return
            await self._changed.wait()

    def _at_once(self) -> int:
        return 1 if self._places.went_well(self._destination) is False else _AT_ONCE

    async def _claim(self) -> None:
        # What is in flight now may be settled by the time the rows come, and they may still show it.
        busy = set(self.in_flight)
        try:
            messages = await self._store.next_messages(self._destination, _PAGE + len(busy))
        except Exception as error:
            log.warning("webhooks_not_read", destination=self._destination, error=str(error))
            self._schedule.put(self._destination, self._clock.now_ms() + _UNREADABLE_STORE_PAUSE_MS)
            return
        now_ms = self._clock.now_ms()
        for message in messages:
            if message.due_at_ms > now_ms:
                self._schedule.put(self._destination, message.due_at_ms)
                break
            if message.row_id not in busy:
                self._claimed.append(message)

    async def _start_one(self) -> None:
        leave = await self._places.take(self._destination)
        message = self._claimed.popleft()
        task = asyncio.create_task(self._delivery.attempt(message))
        self.in_flight[message.row_id] = task
        task.add_done_callback(partial(self._finished, message.row_id, leave))

    def _finished(self, row_id: int, leave: Callable[[], None], task: asyncio.Task[Verdict]) -> None:
        leave()
        del self.in_flight[row_id]
        self._changed.set()
        if not task.cancelled() and (verdict := task.result()) is not Verdict.REFUSED:
            self._places.note(self._destination, verdict is not Verdict.FAILED)
