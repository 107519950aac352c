"""One destination's deliveries: some at a time, one while it fails, until nothing is due."""

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

# A host that a stranger names is spared; a service that this server pushes through is made for many. A
# push service that a browser names lies in between: it is a stranger's word, and mostly one of three.
_AT_ONCE = 4
_AT_ONCE_OF_CHANNEL_AT_HOST = 16
_AT_ONCE_OF_CHANNEL = 64
# The next request goes out while what came of the last ones is on its way to the disk: as many as this may
# be under way in both senses, and so be sent again after a crash.
_UNSETTLED = 128
_UNSETTLED_OF_CHANNEL = 256
_BLOCKED_PAUSE_MS = 30_000
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
        is_host = "://" in destination
        self._most_at_once = _most_at_once(destination)
        self._most_unsettled = _UNSETTLED if is_host else _UNSETTLED_OF_CHANNEL
        self._sending = 0
        self._maybe_more = True
        self._blocked = False
        self.in_flight: dict[int, asyncio.Task[None]] = {}

    def rouse(self) -> None:
        """Look again: something was added or has become due."""
        self._maybe_more = True
        self._changed.set()

    async def run(self) -> None:
        """Deliver until nothing is due or in flight; when to look again is then in the schedule.

        What is in flight goes on when this is cancelled.
        """
        while True:
            self._changed.clear()
            rests_until_ms = self._rests_until_ms()
            if rests_until_ms is not None and not self.in_flight:
                self._schedule.put(self._destination, rests_until_ms)
                return
            if rests_until_ms is None and self._has_room():
                if not self._claimed and (self._maybe_more or not self.in_flight):
                    await self._claim()
                if self._claimed:
                    await self._start_one()
                    continue
                if not self.in_flight and not self._changed.is_set():
                    return
            await self._changed.wait()

    def _rests_until_ms(self) -> int | None:
        """Until when nothing is started, and what was claimed stays due; None when it need not rest."""
        if self._blocked:
            return self._clock.now_ms() + _BLOCKED_PAUSE_MS
        return self._delivery.paused_until_ms(self._destination)

    def _has_room(self) -> bool:
        at_once = 1 if self._places.went_well(self._destination) is False else self._most_at_once
        return self._sending < at_once and len(self.in_flight) < self._most_unsettled

    async def _claim(self) -> None:
        # What is in flight now may be settled by the time the rows come, and they may still show it.
        busy = set(self.in_flight)
        limit = self._most_unsettled + len(busy)
        self._maybe_more = False
        try:
            messages = await self._store.next_messages(self._destination, limit)
        except Exception as error:
            log.warning("webhooks_not_read", destination=self._destination, error=str(error))
            self._schedule.put(self._destination, self._clock.now_ms() + _UNREADABLE_STORE_PAUSE_MS)
            return
        now_ms = self._clock.now_ms()
        self._maybe_more = self._maybe_more or len(messages) == limit
        for message in messages:
            if message.due_at_ms > now_ms:
                self._schedule.put(self._destination, message.due_at_ms)
                break
            if message.row_id not in busy:
                self._claimed.append(message)

    async def _start_one(self) -> None:
        leave = await self._places.take(self._destination)
        if self._rests_until_ms() is not None:  # the service has asked for it in the meantime
            leave()
            return
        message = self._claimed.popleft()
        self._sending += 1
        task = asyncio.create_task(self._deliver(message, leave))
        self.in_flight[message.row_id] = task
        task.add_done_callback(partial(self._settled, message.row_id))

    async def _deliver(self, message: DueMessage, leave: Callable[[], None]) -> None:
        try:
            outcome = await self._delivery.send(message)
            self._note(outcome.verdict)
            if outcome.verdict is not Verdict.DELIVERED:
                await self._delivery.record(message, outcome)
                self._maybe_more = True  # its next attempt has to be put into the schedule
                return
        finally:
            self._sending -= 1
            leave()
            self._changed.set()
        await self._delivery.record(message, outcome)

    def _note(self, verdict: Verdict) -> None:
        if verdict is Verdict.BLOCKED:
            self._blocked = True
        if verdict is not Verdict.REFUSED:
            self._places.note(self._destination, verdict not in (Verdict.FAILED, Verdict.BLOCKED))

    def _settled(self, row_id: int, task: asyncio.Task[None]) -> None:
        del self.in_flight[row_id]
        self._changed.set()
        if not task.cancelled():
            task.result()


def _most_at_once(destination: str) -> int:
    if "://" not in destination:
        return _AT_ONCE_OF_CHANNEL
    return _AT_ONCE_OF_CHANNEL_AT_HOST if " " in destination else _AT_ONCE
