"""The last requests that the server answered and sent, in memory, and the long polls that wait now.

In test mode a layer of middleware records each request with its contents. In production the requests that did
not wait come in batches of what the request log has at hand (`web/batches.py`).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import islice, takewhile
from time import perf_counter
from typing import TypeAlias

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Signals
from bridge_server.web.batches import Batch
from bridge_server.web.exchanges import Exchange, Recorded

MOST_REQUESTS = 2_000
MOST_WAITING = 2_000
"""The long polls that are shown while they wait, the newest; others are shown once they are answered."""

_KEY = ("traffic", "")
_JITTER_MS = 250

Watch: TypeAlias = Callable[[Recorded], None]
"""Sees each exchange when it is over. It must be quick, for the answer waits for it, and must not raise."""


class TrafficLog:
    """The newest exchanges; the oldest go when there are too many.

    Without `keeps_contents` it shows neither headers nor bodies, and of long ids only the beginning: an id is
    a capability.
    """

    def __init__(self, signals: Signals, clock: Clock, *, keeps_contents: bool) -> None:
        self._signals = signals
        self._clock = clock
        self.keeps_contents = keeps_contents
        self._kept: deque[Recorded | Batch] = deque()
        """In the order of changes. The oldest batch may begin with requests that are not shown any more."""
        self._kept_requests = 0
        self._waiting: dict[int, Recorded] = {}
        self._followers = 0
        self._counter_began_at_ms = 0.0
        self.last_number = 0
        """The number of the last change."""
        self.before_reading: Callable[[], None] = lambda: None
        """Has everything recorded that was put off."""
        self._watches: tuple[Watch, ...] = ()

    def __len__(self) -> int:
        """How many requests are shown, without those that wait."""
        self.before_reading()
        return min(self._kept_requests, MOST_REQUESTS)

    @contextmanager
    def watched_by(self, watch: Watch) -> Iterator[None]:
        """Call the function with every exchange until the end of the block."""
        self._watches += (watch,)
        try:
            yield
        finally:
            self._watches = tuple(each for each in self._watches if each is not watch)

    def note(self, exchange: Exchange) -> None:
        """Keep an exchange that began so many milliseconds ago as it took."""
        self.before_reading()
        self.last_number += 1
        began_at_ms = self._clock.now_ms() - round(exchange.milliseconds)
        self._keep(Recorded(self.last_number, self.last_number, began_at_ms, exchange))

    def add(self, batch: Batch) -> None:
        """Keep a batch whose first request has the number after `last_number`. No watch sees its requests."""
        self.last_number = batch.last
        self._append(batch, len(batch))

    def begin(self, exchange: Exchange) -> Recorded:
        """Show a long poll that begins to wait."""
        self.before_reading()
        self.last_number += 1
        recorded = Recorded(self.last_number, self.last_number, self._clock.now_ms(), exchange, True)
        if len(self._waiting) >= MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[recorded.number] = recorded
        return recorded

    def finish(self, recorded: Recorded, exchange: Exchange) -> None:
        """The long poll was answered, as the exchange says, or its client has left."""
        self.before_reading()
        self._waiting.pop(recorded.number, None)
        self.last_number += 1
        recorded.exchange, recorded.change, recorded.is_waiting = exchange, self.last_number, False
        self._keep(recorded)

    def announce(self) -> None:
        """Wake who waits for news."""
        self._signals.touch(_KEY)

    def newest(self) -> int:
        """The number of the last change."""
        self.before_reading()
        return self.last_number

    @property
    def is_followed(self) -> bool:
        """Whether somebody waits for news."""
        return self._followers > 0

    def now_ms(self) -> int:
        """The time by which requests are recorded."""
        return self._clock.now_ms()

    def waited_seconds(self, recorded: Recorded) -> float:
        """How long a long poll has waited until now."""
        return max(0, self._clock.now_ms() - recorded.at_ms) / 1_000

    async def after(self, number: int, wait_seconds: float) -> Sequence[Recorded]:
        """The exchanges answered after this change, oldest first; with a wait, once there is one."""

        async def read() -> Sequence[Recorded] | None:
            return [*self.answered_after(number)][::-1] or None

        return await self.news(read, wait_seconds) or ()

    async def news(
        self, read: Callable[[], Awaitable[Sequence[Recorded] | None]], wait_seconds: float
    ) -> Sequence[Recorded] | None:
        """What `read` finds, at once or with the first news for which it finds something; None in the end."""
        if wait_seconds <= 0:
            return await read()
        self._followers += 1
        try:
            return await self._signals.wait_for(_KEY, read, wait_seconds)
        finally:
            self._followers -= 1

    def answered_after(self, change: int) -> Iterator[Recorded]:
        """The exchanges that were answered after this change, newest first."""
        self.before_reading()
        return islice(self._answered_after(change), MOST_REQUESTS)

    def changed_after(self, change: int) -> Iterator[Recorded]:
        """The exchanges that were answered after this change, and long polls that began to wait after it and
        still do; the newest change first.
        """
        waiting = takewhile(lambda each: each.number > change, reversed(self._waiting.values()))
        return merge(self.answered_after(change), waiting, key=lambda each: each.change, reverse=True)

    def before(self, number: int | None) -> list[Recorded]:
        """The exchanges with lower numbers, all of them for None, newest first: those that wait as well."""
        found = sorted(self.changed_after(0), key=lambda each: each.number, reverse=True)
        return found if number is None else [each for each in found if each.number < number]

    def find(self, number: int) -> Recorded | None:
        """The exchange of this number, if it is still kept."""
        return next((each for each in self.changed_after(0) if each.number == number), None)

    def clear(self) -> None:
        """Forget everything, and begin again with number 1."""
        self.before_reading()
        self._kept.clear()
        self._waiting.clear()
        self.last_number = self._kept_requests = 0

    def _keep(self, recorded: Recorded) -> None:
        self._append(recorded, 1)
        for watch in self._watches:
            watch(recorded)
        self.announce()

    def _append(self, kept: Recorded | Batch, requests: int) -> None:
        self._kept.append(kept)
        self._kept_requests += requests
        while self._kept_requests - (oldest := _requests_of(self._kept[0])) >= MOST_REQUESTS:
            self._kept.popleft()
            self._kept_requests -= oldest

    def _answered_after(self, change: int) -> Iterator[Recorded]:
        counter_began_at_ms = self._beginning_of_counter_ms()
        for kept in reversed(self._kept):
            if (kept.change if isinstance(kept, Recorded) else kept.last) <= change:
                return
            for each in (kept,) if isinstance(kept, Recorded) else kept.newest_first(counter_began_at_ms):
                if each.change <= change:
                    return
                yield each

    def _beginning_of_counter_ms(self) -> float:
        """When the performance counter was 0: a clock that was set moves it, and jitter does not."""
        began_at_ms = self._clock.now_ms() - perf_counter() * 1_000
        if abs(began_at_ms - self._counter_began_at_ms) > _JITTER_MS:
            self._counter_began_at_ms = began_at_ms
        return self._counter_began_at_ms


def _requests_of(kept: Recorded | Batch) -> int:
    return 1 if isinstance(kept, Recorded) else len(kept)
