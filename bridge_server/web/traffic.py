"""The record in memory of the last requests, answered and sent, and of the long polls that wait now. In test
mode a layer of middleware records each request with its contents. In production requests that did not wait
come in batches from `web/recorder.py`, and their entries are made when somebody reads them.
"""

import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from heapq import merge
from itertools import islice, takewhile
from struct import pack
from time import perf_counter
from typing import Any, Literal, TypeAlias

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.values import dataclass
from bridge_server.web.json_rpc import summary as summary_of_calls

LARGEST_BODY_BYTES = 16 * 1024
"""The longest part of a body that is kept."""

CLIENT_LEFT = 499
"""The status of a request whose client left before the answer."""
FIRST_FAILURE = 400
_LONGEST_SUMMARY = 200

_LONG_ID = re.compile(r"[0-9A-Za-z%_-]{17,}", re.ASCII)
_ID_CHARACTERS = 8
_SECRETS = frozenset({"authorization", "cookie"})

_BETWEEN_PATHS = "\n"
"""No path of HTTP has it."""

MOST_REQUESTS = 2_000
MOST_WAITING = 2_000
"""The long polls that are shown while they wait, the newest; others are shown once they are answered."""

_KEY = ("traffic", "")
_JITTER_MS = 250


@dataclass(frozen=True, slots=True)
class Contents:
    """Headers, and the first bytes of a body, which has `body_bytes` in all."""

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    body_bytes: int = 0


@dataclass(slots=True)
class Exchange:
    """A request and its answer, as the record shows them. `who` is the side that sent it, such as `dapp`, or
    `bridge` for this server. `status` is 499 when the client left before the answer, and 0 when a receiver
    gave none, or none yet. `waited_seconds` is how long a long poll was held; `summary` says in a few words
    what a request is about. `about` holds ids of sessions and calls that the path does not name: it is
    searched, and never shown.
    """

    who: str
    method: str
    path: str
    route: str
    status: int
    milliseconds: float
    waited_seconds: float = 0.0
    summary: str = ""
    request: Contents | None = None
    answer: Contents | None = None
    about: bytes = b""

    @property
    def is_error(self) -> bool:
        """Whether the request failed, or had no answer."""
        return self.status == 0 or self.status >= FIRST_FAILURE


@dataclass(slots=True)
class Recorded:
    """An exchange in the record. Numbers and changes are counted together, from 1 on. A long poll has its
    number from the moment at which it began to wait; `change` grows when it is answered.
    """

    number: int
    change: int
    at_ms: int
    exchange: Exchange
    is_waiting: bool = False


def contents(headers: Mapping[str, str], body: bytes) -> Contents:
    """The headers without secrets, and the first 16 KiB of the body."""
    shown = {str(name): "…" if name.lower() in _SECRETS else value for name, value in headers.items()}
    return Contents(shown, body[:LARGEST_BODY_BYTES], len(body))


def summary_of(route: str, status: int, sent: bytes, body: bytes) -> str:
    """The first fault of a failed request; else both bodies in a few words. `route` is its route's name."""
    try:
        if status >= FIRST_FAILURE:
            return _first_fault(body)[:_LONGEST_SUMMARY]
        make = _SUMMARIES.get(plain_name(route))
        return "" if make is None else make(sent, body)[:_LONGEST_SUMMARY]
    except (ValueError, TypeError, KeyError, AttributeError):  # the bodies are not as the route expects them
        return ""


def _first_fault(body: bytes) -> str:
    problem = orjson.loads(body)
    for fault in problem.get("errors", ()):
        return f"{fault['pointer']} {fault['detail']}"
    return str(problem.get("detail", problem["title"]))


_PREFIX = re.compile("v[0-9.]+-")


def prefix_of(route: str) -> str:
    """The prefix of the names of the relay's routes for older clients, such as `v0.7-`; empty for others."""
    found = _PREFIX.match(route)
    return "" if found is None else found[0]


def plain_name(route: str) -> str:
    """The name of a route without that prefix."""
    return route.removeprefix(prefix_of(route))


def made_by(route: str) -> Literal["", "session", "call"]:
    """The kind of thing that a successful request of the route makes; its answer names the thing."""
    return _MADE.get(plain_name(route), "")


_MADE: Mapping[str, Literal["session", "call"]] = {"open-session": "session", "request-call": "call"}

_PAYLOAD = "encryptionPayload"
_ID_MEMBERS = (("session", "sessionId"), ("call", "callId"))


def _of_relay(sent: bytes, answered: bytes) -> str:
    request, answer = _members(sent), _members(answered)
    ids = [f"{name} {str(answer[key])[:_ID_CHARACTERS]}" for name, key in _ID_MEMBERS if key in answer]
    push = request.get("push")
    about = [
        str(request["dappName"]) if "dappName" in request else "",
        f"payload {len(sent)} B" if _PAYLOAD in request else "",
        f"push {push['type']}" if isinstance(push, dict) else "",
        f"topic {request['topic']}" if "topic" in request else "",
    ]
    return " · ".join(filter(None, [*ids, *about]))


def _members(text: bytes) -> dict[str, Any]:
    document = orjson.loads(text or b"{}")
    return document if isinstance(document, dict) else {}


def _of_notify(_: bytes, answered: bytes) -> str:
    answer = orjson.loads(answered)
    missed = Counter(each["reason"].replace("_", " ") for each in answer["failed"])
    missed["not subscribed"] += len(answer["not_found"])
    counts = [(len(answer["sent"]), "sent"), *((count, reason) for reason, count in missed.items())]
    return ", ".join(f"{count} {outcome}" for count, outcome in counts if count)


NOTIFYING = frozenset({"notify", "notify-audience"})
"""The routes whose summary says how many accounts a notification was sent to, and who was missed."""
_ALL_SENT = " sent"
_OF_RELAY = ("open-session", "update-session", "end-session", "request-call", "answer-call", "subscribe")

_SUMMARIES: Mapping[str, Callable[[bytes, bytes], str]] = {
    **dict.fromkeys(_OF_RELAY, _of_relay),
    **dict.fromkeys(NOTIFYING, _of_notify),
    "rpc": summary_of_calls,
}
"""By the name of the route: a summary of a body and its answer."""


def has_missed(route: str, summary: str) -> bool:
    """Whether the summary says that a notification did not reach every account."""
    return route in NOTIFYING and summary != "" and not summary.endswith(_ALL_SENT)


def with_short_ids(path: str) -> str:
    """The path with the first characters of each long id."""
    return _LONG_ID.sub(lambda found: f"{found[0][:_ID_CHARACTERS]}…", path)


@dataclass(slots=True)
class Kind:
    """The values that many requests have in common. `about` names a session, a call or a fault."""

    who: str
    method: str
    route: str
    status: int
    about: bytes = b""


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests with successive numbers, from `first` on, in the order of their answers. A batch is one text
    of paths, the bytes of its times and the kinds of the requests: a quarter of the memory that an object for
    each request takes. What the record keeps costs every later request a part of the processor's cache.
    """

    first: int
    _kinds: Sequence[Kind]
    _paths: str
    _times: bytes
    """When each began (of the performance counter), then how many seconds each took: C doubles."""

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def last(self) -> int:
        """The number of its last request."""
        return self.first + len(self._kinds) - 1

    def newest_first(self, counter_began_at_ms: float) -> Iterator[Recorded]:
        """The entries of its requests, by the time of day at which the performance counter was 0."""
        paths, times, size = self._paths.split(_BETWEEN_PATHS), memoryview(self._times).cast("d"), len(self)
        for index in range(size - 1, -1, -1):
            exchange = _exchange(self._kinds[index], paths[index], times[size + index])
            number, at_ms = self.first + index, round(counter_began_at_ms + times[index] * 1_000)
            yield Recorded(number, number, at_ms, exchange)


def batch_of(
    first: int, kinds: Sequence[Kind], paths: Sequence[str], began: Sequence[float], took: Sequence[float]
) -> Batch:
    """A batch of requests, given in columns; `began` are times of the performance counter, `took` seconds."""
    return Batch(first, kinds, _BETWEEN_PATHS.join(paths), pack(f"{2 * len(kinds)}d", *began, *took))


def _exchange(kind: Kind, path: str, seconds: float) -> Exchange:
    took_ms, title = round(seconds * 1_000, 1), _title(kind)
    return Exchange(
        kind.who, kind.method, path, kind.route, kind.status, took_ms, 0.0, title, about=kind.about
    )


def _title(kind: Kind) -> str:
    """The title of the problem that answers a failed request; its detail may quote what the client sent."""
    if kind.status < FIRST_FAILURE or not kind.about:
        return ""
    try:
        return str(orjson.loads(kind.about)["title"])
    except (ValueError, TypeError, KeyError):
        return ""


APPROVAL = "approval"
"""The route of a request that waits for a person; its path is the id of the approval."""

Watch: TypeAlias = Callable[[Recorded], None]
"""Sees each exchange when it is over, and an approval also when it begins to wait. It must be quick, for the
answer waits for it, and must not raise."""


class TrafficLog:
    """The newest exchanges; the oldest go when there are too many. Without `keeps_contents` it shows neither
    headers nor bodies, and of long ids only the beginning: an id is a capability.
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
        """Called before the record is read: has the observer record the requests that it put off."""
        self._watches: tuple[Watch, ...] = ()

    def __len__(self) -> int:
        """The number of requests that are shown, without long polls that wait."""
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
        """Record an exchange that is just over."""
        self.before_reading()
        self.last_number += 1
        began_at_ms = self._clock.now_ms() - round(exchange.milliseconds)
        self._keep(Recorded(self.last_number, self.last_number, began_at_ms, exchange))

    def add(self, batch: Batch) -> None:
        """Record a batch, whose first number follows `last_number`. Its requests are shown to no watch."""
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

    def begin_approval(self, exchange: Exchange) -> Recorded:
        """Show a request that begins to wait for a person, who is notified of it at once."""
        recorded = self.begin(exchange)
        for watch in self._watches:
            watch(recorded)
        self.announce()
        return recorded

    def finish(self, recorded: Recorded, exchange: Exchange) -> None:
        """Record the end of a long poll: its answer, or that its client has left."""
        self.before_reading()
        self._waiting.pop(recorded.number, None)
        self.last_number += 1
        recorded.exchange, recorded.change, recorded.is_waiting = exchange, self.last_number, False
        self._keep(recorded)

    def announce(self) -> None:
        """Wake the readers that wait for news."""
        self._signals.touch(_KEY)

    def newest(self) -> int:
        """The number of the last change."""
        self.before_reading()
        return self.last_number

    @property
    def is_followed(self) -> bool:
        """Whether a reader waits for news."""
        return self._followers > 0

    def now_ms(self) -> int:
        """The time of the clock by which requests are recorded, in milliseconds since the Unix epoch."""
        return self._clock.now_ms()

    def waited_seconds(self, recorded: Recorded) -> float:
        """The seconds for which a long poll has waited until now."""
        return max(0, self._clock.now_ms() - recorded.at_ms) / 1_000

    async def after(self, number: int, wait_seconds: float) -> Sequence[Recorded]:
        """The exchanges answered after this change, oldest first; waits for one up to `wait_seconds`."""

        async def read() -> Sequence[Recorded] | None:
            return [*self.answered_after(number)][::-1] or None

        return await self.news(read, wait_seconds) or ()

    async def news(
        self, read: Callable[[], Awaitable[Sequence[Recorded] | None]], wait_seconds: float
    ) -> Sequence[Recorded] | None:
        """What `read` finds, at once or after some news; None after `wait_seconds`."""
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
        """The exchanges answered after this change, and polls that wait since then; newest change first."""
        waiting = takewhile(lambda each: each.number > change, reversed(self._waiting.values()))
        return merge(self.answered_after(change), waiting, key=lambda each: each.change, reverse=True)

    def before(self, number: int | None) -> list[Recorded]:
        """The exchanges with lower numbers (all for None), newest first, with the long polls that wait."""
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
        # The time of day at which the performance counter was 0 moves when the clock is set.
        began_at_ms = self._clock.now_ms() - perf_counter() * 1_000
        if abs(began_at_ms - self._counter_began_at_ms) > _JITTER_MS:
            self._counter_began_at_ms = began_at_ms
        counter_began_at_ms = self._counter_began_at_ms
        for kept in reversed(self._kept):
            if (kept.change if isinstance(kept, Recorded) else kept.last) <= change:
                return
            for each in (kept,) if isinstance(kept, Recorded) else kept.newest_first(counter_began_at_ms):
                if each.change <= change:
                    return
                yield each


def _requests_of(kept: Recorded | Batch) -> int:
    return 1 if isinstance(kept, Recorded) else len(kept)


def exchange_line(
    who: str,
    method: str,
    path: str,
    *,
    status: int,
    milliseconds: float,
    waited_seconds: float = 0.0,
    summary: str = "",
    path_columns: int = 0,
    is_waiting: bool = False,
) -> str:
    """A request and its answer on one line; status 0 is none. The path has `path_columns` or more."""
    head = f"{who:<7} {method:<6} {path:<{path_columns}}"
    outcome = "waits" if is_waiting else _outcome(status, milliseconds, waited_seconds)
    return f"{head}  {outcome}  {summary}".rstrip()


def _outcome(status: int, milliseconds: float, waited_seconds: float) -> str:
    answer = f"{status}" if status else "no answer"
    time = f"waited {waited_seconds:.1f} s" if waited_seconds else f"{milliseconds:.0f} ms"
    return f"{answer}  {time}"
