"""The last requests that the server answered and sent, in memory, and the long polls that wait now.

In test mode a layer of middleware records each request with its contents. In production the record is a tuple
of what the request log has at hand, and everything else is made of it when somebody looks.
"""

import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import takewhile
from time import perf_counter
from typing import TypeAlias

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Signals

MOST_REQUESTS = 2_000
MOST_WAITING = 2_000
"""The long polls that are shown while they wait, the newest; others are shown once they are answered."""
LARGEST_BODY_BYTES = 16 * 1024
"""The longest part of a body that is kept."""

CLIENT_LEFT = 499
"""The status of a request whose client left before the answer."""
FIRST_FAILURE = 400

_KEY = ("traffic", "")
_LONG_ID = re.compile(r"[0-9A-Za-z%_-]{17,}", re.ASCII)
_ID_CHARACTERS = 8
_JITTER_MS = 250
_SECRETS = frozenset({"authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class Contents:
    """Headers, and the first bytes of a body, which has `body_bytes` in all."""

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    body_bytes: int = 0


@dataclass(slots=True)
class Exchange:
    """A request and its answer. `who` is the side that sent it, such as `dapp`, or `bridge` for this server.

    `status` is 499 when the client left before the answer, and 0 when a receiver gave none, or none yet.
    `waited_seconds` is how long a long poll was held; `gist` says in a few words what the request is about.
    `about` holds ids of sessions and calls that the path does not name: it is searched, and never shown.
    """

    who: str
    method: str
    path: str
    route: str
    status: int
    milliseconds: float
    waited_seconds: float = 0.0
    gist: str = ""
    request: Contents | None = None
    answer: Contents | None = None
    about: bytes = b""

    @property
    def is_error(self) -> bool:
        """Whether the request failed, or had no answer."""
        return self.status == 0 or self.status >= FIRST_FAILURE


@dataclass(slots=True)
class Recorded:
    """An exchange in the record. Numbers and changes are counted together, from 1 on.

    A long poll has its number from the moment at which it began to wait; `change` grows when it is answered.
    """

    number: int
    change: int
    at_ms: int
    exchange: Exchange
    is_waiting: bool = False


Passed: TypeAlias = tuple[int, str, str, str, str, int, float, float, bytes]
"""A request that was answered in production: its number, who, method, path, route, status, when it began (of
the performance counter), how many seconds it took, and the bytes that name its session or call or its fault.
"""


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
        self.kept: deque[Recorded | Passed] = deque(maxlen=MOST_REQUESTS)
        """In the order of changes."""
        self._waiting: dict[int, Recorded] = {}
        self._followers = 0
        self._counter_began_at_ms = 0.0
        self.last_number = 0
        """The number of the last change. The observer counts and appends here itself in production."""
        self.before_reading: Callable[[], None] = lambda: None
        """Has everything recorded that was put off."""
        self._watches: tuple[Watch, ...] = ()

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
        return map(self._read, takewhile(lambda each: _change_of(each) > change, reversed(self.kept)))

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
        self.kept.clear()
        self._waiting.clear()
        self.last_number = 0

    def _keep(self, recorded: Recorded) -> None:
        self.kept.append(recorded)
        for watch in self._watches:
            watch(recorded)
        self.announce()

    def _read(self, kept: Recorded | Passed) -> Recorded:
        if isinstance(kept, Recorded):
            return kept
        number, who, method, path, route, status, began, seconds, about = kept
        at_ms = round(self._beginning_of_counter_ms() + began * 1_000)
        exchange = Exchange(
            who,
            method,
            path,
            route,
            status,
            round(seconds * 1_000, 1),
            gist=_title(status, about),
            about=about,
        )
        return Recorded(number, number, at_ms, exchange)

    def _beginning_of_counter_ms(self) -> float:
        """When the performance counter was 0: a clock that was set moves it, and jitter does not."""
        began_at_ms = self._clock.now_ms() - perf_counter() * 1_000
        if abs(began_at_ms - self._counter_began_at_ms) > _JITTER_MS:
            self._counter_began_at_ms = began_at_ms
        return self._counter_began_at_ms


def _change_of(kept: Recorded | Passed) -> int:
    return kept.change if isinstance(kept, Recorded) else kept[0]


def _title(status: int, answered: bytes) -> str:
    """The title of the problem that answers a failed request; its detail may quote what the client sent."""
    if status < FIRST_FAILURE or not answered:
        return ""
    try:
        return str(orjson.loads(answered)["title"])
    except (ValueError, TypeError, KeyError):
        return ""


def contents(headers: Mapping[str, str], body: bytes) -> Contents:
    """The headers without secrets, and the first 16 KiB of the body."""
    shown = {str(name): "…" if name.lower() in _SECRETS else value for name, value in headers.items()}
    return Contents(shown, body[:LARGEST_BODY_BYTES], len(body))


def with_short_ids(path: str) -> str:
    """The path with the first characters of each long id."""
    return _LONG_ID.sub(lambda found: f"{found[0][:_ID_CHARACTERS]}…", path)
