"""Sees to it that everything in the outbox is sent when it is due: one lane for each destination."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import asdict
from typing import Any

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Key, Signals
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.lane import Lane
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.places import Places
from bridge_server.outbox.schedule import Schedule
from bridge_server.outbox.store import OutboxStore

_REQUESTS_AT_ONCE = 256
_REQUESTS_KEPT_FOR_WHO_ANSWERS = 64
_LANES_OPENED_AT_ONCE = 1_000
_TICK_SECONDS = 1.0
_TICKS_BETWEEN_RECOUNTS = 60

log = structlog.get_logger()


class Dispatcher:
    """Delivers what the store holds, from `start` to `stop`.

    `on_gone` is called with a message that was answered 410. `chance` is a source of numbers in
    [0, 1) for spreading the attempts.
    """

    def __init__(
        self,
        store: OutboxStore,
        sender: Sender,
        signals: Signals,
        clock: Clock,
        on_gone: Callable[[OutgoingMessage], Awaitable[None]],
        chance: Callable[[], float] = random.random,
        grace_seconds: float = 2.0,
    ) -> None:
        self._store = store
        self._signals = signals
        self._clock = clock
        self._delivery = Delivery(store, sender, clock, on_gone, chance)
        self._places = Places(_REQUESTS_AT_ONCE, _REQUESTS_KEPT_FOR_WHO_ANSWERS)
        self._schedule = Schedule()
        self._lanes: dict[str, Lane] = {}
        self._last_lanes: list[Lane] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._grace_seconds = grace_seconds
        self._running = False

    async def start(self) -> None:
        """Resume what is owed and listen for more. Raises UnavailableError when the store cannot be read."""
        self._running = True
        self._signals.listen(self._on_touch)
        await self._recount()
        await self.wake()
        self._spawn(self._tick_forever())

    def begin_nothing(self) -> None:
        """Start nothing more; what is in flight goes on."""
        if self._running:
            self._running = False
            self._last_lanes = list(self._lanes.values())
            for task in self._tasks:
                task.cancel()

    async def stop(self) -> None:
        """Start nothing more, give what is in flight `grace_seconds`, abandon the rest: it stays due."""
        self.begin_nothing()
        await _cancel(self._tasks)
        sends = {task for lane in self._last_lanes for task in lane.in_flight.values()}
        if sends:
            _, unfinished = await asyncio.wait(sends, timeout=self._grace_seconds)
            await _cancel(unfinished)
        await self._delivery.close()

    async def wake(self) -> None:
        """Attend to what has become due by the clock; called every second while running."""
        for destination in self._schedule.take_due(self._clock.now_ms(), _LANES_OPENED_AT_ONCE):
            self._attend(destination)

    async def recount(self) -> None:
        """Look for what another process has put into the store, and attend to it."""
        await self._recount()
        await self.wake()

    def figures(self) -> dict[str, int]:
        """What an operator watches.

        `due` messages that are owed and `dead` letters that are kept, both counted anew every minute;
        attempts that `delivered` and that `failed`, since the start.
        """
        return {name: max(0, figure) for name, figure in asdict(self._delivery.figures).items()}

    def _on_touch(self, key: Key) -> None:
        kind, text = key
        if kind == "outbox" and self._running:
            self._delivery.figures.due += 1
            self._attend(text)
        elif kind == "outbox-more":  # for destinations that were named already
            self._delivery.figures.due += int(text)

    def _attend(self, destination: str) -> None:
        lane = self._lanes.get(destination)
        if lane is None:
            lane = Lane(destination, self._store, self._delivery, self._places, self._schedule, self._clock)
            self._lanes[destination] = lane
            self._spawn(self._run_lane(destination, lane))
        else:
            lane.rouse()

    async def _run_lane(self, destination: str, lane: Lane) -> None:
        try:
            await lane.run()
        finally:
            del self._lanes[destination]

    async def _tick_forever(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            ticks += 1
            try:
                if ticks % _TICKS_BETWEEN_RECOUNTS == 0:
                    await self._recount()
                await self.wake()
            except Exception as error:  # the next tick tries again
                log.warning("outbox_tick_failed", error=str(error))

    async def _recount(self) -> None:
        """Take the counts and times from the store, which another process may have changed."""
        backlog = await self._store.backlog()
        self._delivery.figures.dead = await self._store.count_dead_letters()
        self._delivery.figures.due = sum(owed.messages for owed in backlog)
        for owed in backlog:
            self._schedule.put(owed.destination, owed.earliest_due_ms)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
