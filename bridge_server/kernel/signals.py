"""Wake-ups: a coroutine that waits for a change of something is woken once the change is committed.

A waiter joins *before* it reads and sleeps *after*, so that a change between the two is never lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain
from math import ceil
from typing import TypeVar

from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.kernel.values import dataclass

Key = tuple[str, str]
"""The thing that changed, as its kind and its id: `("session", session_id)`."""

Value = TypeVar("Value")

# Waits end on ticks of the loop's clock, so that thousands of waiters share a few timers.
_TICK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Touched(DomainEvent):
    """The value of the key has changed: its waiters read again, and caches forget it."""

    key: Key


class Signals:
    """The waiters of one event loop by key. Most are alone with theirs: the first needs no collection."""

    def __init__(self) -> None:
        self._first: dict[Key, asyncio.Future[bool]] = {}
        self._further: dict[Key, dict[asyncio.Future[bool], None]] = {}
        self._sleepers: dict[int, set[asyncio.Future[bool]]] = {}
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of waiters at this moment."""
        return len(self._first) + sum(map(len, self._further.values()))

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits at this moment."""
        return bool(self._first or self._further)

    def subscribe_to(self, events: Events) -> None:
        """Wake the waiters of every key that a commit touches, in any process."""
        events.subscribe(Touched, self._on_touched, everywhere=True)
        events.on_gap(partial(self.wake_all, changed=True))

    def touch(self, key: Key) -> None:
        """Wake the waiters of the key, because its value has changed."""
        first = self._first.pop(key, None)
        if first is not None:
            _wake(first, True)
        for waiter in self._further.pop(key, ()):
            _wake(waiter, True)

    def close(self) -> None:
        """Wake every waiter with nothing, now and from now on: the server stops."""
        self._closed = True
        self.wake_all(changed=False)

    def wake_all(self, *, changed: bool) -> None:
        """Wake every waiter: to read again when anything may have `changed`, and with nothing otherwise."""
        waiters = list(chain(self._first.values(), *self._further.values()))
        self._first.clear()
        self._further.clear()
        for waiter in waiters:
            _wake(waiter, changed)

    async def wait_for(
        self, key: Key, read: Callable[[], Awaitable[Value | None]], wait_seconds: float
    ) -> Value | None:
        """Return what `read` finds, reading again after every change until it finds something. Returns None
        when it found nothing within `wait_seconds`, or when the server stops. What `read` raises is raised.
        """
        loop = asyncio.get_running_loop()
        tick = ceil((loop.time() + wait_seconds) / _TICK_SECONDS)
        while True:
            waiter = loop.create_future()
            if key in self._first:
                self._further.setdefault(key, {})[waiter] = None
            else:
                self._first[key] = waiter
            try:
                value = await read()
                if value is not None or self._closed:
                    return value
                self._give_up_at(tick, waiter)
                if not await waiter:
                    return None
            finally:
                self._leave(key, tick, waiter)

    def _on_touched(self, event: Touched) -> None:
        key = event.key
        if key in self._first or key in self._further:  # nearly always nobody waits
            self.touch(key)

    def _give_up_at(self, tick: int, waiter: asyncio.Future[bool]) -> None:
        sleepers = self._sleepers.get(tick)
        if sleepers is None:
            sleepers = self._sleepers[tick] = set()
            asyncio.get_running_loop().call_at(tick * _TICK_SECONDS, self._give_up, tick)
        sleepers.add(waiter)

    def _give_up(self, tick: int) -> None:
        for waiter in self._sleepers.pop(tick, ()):
            _wake(waiter, False)

    def _leave(self, key: Key, tick: int, waiter: asyncio.Future[bool]) -> None:
        sleepers = self._sleepers.get(tick)
        if sleepers is not None:
            sleepers.discard(waiter)
        if self._first.get(key) is waiter:
            del self._first[key]
            return
        others = self._further.get(key)
        if others is not None:
            others.pop(waiter, None)
            if not others:
                del self._further[key]


def _wake(waiter: asyncio.Future[bool], changed: bool) -> None:
    if not waiter.done():
        waiter.set_result(changed)
