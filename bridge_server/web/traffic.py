"""The last requests that the server answered and sent, in memory.

The layer of middleware that records them is composed only where the record is on.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Signals

MOST_REQUESTS = 2_000
LARGEST_BODY_BYTES = 16 * 1024
"""The longest part of a body that is kept."""

_KEY = ("traffic", "")
_LONG_ID = re.compile(r"[0-9A-Za-z%_-]{17,}", re.ASCII)
_ID_CHARACTERS = 8
_SECRETS = frozenset({"authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class Contents:
    """Headers, and the first bytes of a body, which has `body_bytes` in all."""

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    body_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer. `who` is the side that sent it, such as `dapp`, or `bridge` for this server.

    `status` is 499 when the client left before the answer, and 0 when a receiver gave none. `waited_seconds`
    is how long a long poll was held; `gist` says in a few words what the request is about.
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


@dataclass(frozen=True, slots=True)
class Recorded:
    """An exchange in the order of answers: numbers begin at 1."""

    number: int
    at_ms: int
    exchange: Exchange


Watch: TypeAlias = Callable[[Recorded], None]
"""Sees each exchange when it is over. It must be quick, for the answer waits for it, and must not raise."""


class TrafficLog:
    """The newest exchanges; the oldest go when there are too many.

    Without `keeps_contents` it has neither headers nor bodies, and of long ids only the beginning: an id is
    a capability.
    """

    def __init__(self, signals: Signals, clock: Clock, *, keeps_contents: bool) -> None:
        self._signals = signals
        self._clock = clock
        self.keeps_contents = keeps_contents
        self._kept: deque[Recorded] = deque(maxlen=MOST_REQUESTS)
        self.last_number = 0
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
        self.last_number += 1
        began_at_ms = self._clock.now_ms() - round(exchange.milliseconds)
        recorded = Recorded(self.last_number, began_at_ms, exchange)
        self._kept.append(recorded)
        for watch in self._watches:
            watch(recorded)
        self._signals.touch(_KEY)

    async def after(self, number: int, wait_seconds: float) -> Sequence[Recorded]:
        """The exchanges after this number, oldest first; with a wait, once there is one."""

        async def read() -> Sequence[Recorded] | None:
            return [each for each in self._kept if each.number > number] or None

        if wait_seconds <= 0:
            return await read() or ()
        return await self._signals.wait_for(_KEY, read, wait_seconds) or ()

    def clear(self) -> None:
        """Forget everything, and begin again with number 1."""
        self._kept.clear()
        self.last_number = 0


def contents(headers: Mapping[str, str], body: bytes) -> Contents:
    """The headers without secrets, and the first 16 KiB of the body."""
    shown = {str(name): "…" if name.lower() in _SECRETS else value for name, value in headers.items()}
    return Contents(shown, body[:LARGEST_BODY_BYTES], len(body))


def with_short_ids(path: str) -> str:
    """The path with the first characters of each long id."""
    return _LONG_ID.sub(lambda found: f"{found[0][:_ID_CHARACTERS]}…", path)
