"""Requests as an operator sees them: the record of the last ones, figures of clients by address, and when
each side of a session was last seen. The outermost layer of middleware calls an `Observer`, which counts and
records plain reads together, 128 at a time or when somebody looks: a hot request costs almost nothing more.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from heapq import nlargest
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import orjson
from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.values import dataclass
from bridge_server.web import traffic
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.aiohttp_internals import PREFER, body_of, noted_of
from bridge_server.web.prefer import preferred_wait
from bridge_server.web.routes import Route

MOST_ADDRESSES = 1_000
PERIOD_SECONDS = 300
PERIODS = 12
_KEPT_OF_EACH_ORDER = 120
_MOST_LIMITS = 16
_OTHER_LIMITS = "other"
_MICROSECONDS = 1_000_000
_MINUTE_SECONDS = 60

LEFT_OUT = frozenset({"console", "operator", "reader", "test"})
"""The sides (`Route.who`) whose requests are not recorded: an operator who reads the record would fill it,
and so would the pages of the documentation with their stylesheets and scripts."""

REFUSED_BY = web.RequestKey("refused_by", str)
"""The name of the limit that refused a request."""

_FOUND = 200
_NO_CONTENT = 204
_VALUES_OF_ONE = 5
_MOST_PENDING_VALUES = 128 * _VALUES_OF_ONE
_SWITCHING_PROTOCOLS = 101
_FORBIDDEN = 403
_TOO_MANY_REQUESTS = 429
_PAGE = "page"

By: TypeAlias = Literal["requests", "refused", "sessions", "sockets", "waits", "bytes"]
ORDERS: tuple[By, ...] = get_args(By)


@dataclass(slots=True)
class ClientFigures:
    """Counts of the requests of one address; `bytes` are the bytes of bodies, received and answered."""

    requests: int = 0
    refused: int = 0
    sessions: int = 0
    sockets: int = 0
    waits: int = 0
    bytes: int = 0
    refused_by: dict[str, int] = field(default_factory=dict)

    def refuse(self, limit: str) -> None:
        """Count a refusal by this limit."""
        self.refused += 1
        name = limit if limit in self.refused_by or len(self.refused_by) < _MOST_LIMITS else _OTHER_LIMITS
        self.refused_by[name] = self.refused_by.get(name, 0) + 1

    def add(self, other: "ClientFigures") -> None:
        """Add the other's figures."""
        for name in ORDERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for limit, count in other.refused_by.items():
            self.refused_by[limit] = self.refused_by.get(limit, 0) + count


class Client(NamedTuple):
    """An address and its figures; `waiting` of its requests are held at this moment."""

    address: str
    figures: ClientFigures
    waiting: int = 0


class Clients:
    """The figures of clients by address: twelve periods of five minutes, and totals since the start. A table
    has at most a thousand addresses: when it is full, only the heaviest of each kind stay. `turn` begins a
    new period, and is to be called every few minutes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.now: dict[str, ClientFigures] = {}
        """The table of the current period."""
        self._periods: deque[dict[str, ClientFigures]] = deque(maxlen=PERIODS - 1)
        self._before: dict[str, ClientFigures] = {}
        self._period = self._number_of_period()
        self.waiting: Counter[str] = Counter()
        self.before_reading: Callable[[], None] = lambda: None
        """Called before figures are read: has the observer count the requests that it put off."""

    def figures(self, address: str) -> ClientFigures:
        """The figures of this address in the current period."""
        found = self.now.get(address)
        if found is None:
            if len(self.now) >= MOST_ADDRESSES:
                _keep_the_heaviest(self.now)
            found = self.now[address] = ClientFigures()
        return found

    def begin_waiting(self, address: str) -> None:
        """A request of this address is held from now on."""
        self.figures(address).waits += 1
        self.waiting[address] += 1

    def end_waiting(self, address: str) -> None:
        """A held request of this address is answered, or its client has left."""
        self.waiting[address] -= 1
        if not self.waiting[address]:
            del self.waiting[address]

    def turn(self) -> None:
        """Begin a new period if it is time."""
        self.before_reading()
        period = self._number_of_period()
        if period == self._period:
            return
        for address, figures in self.now.items():
            self._before.setdefault(address, ClientFigures()).add(figures)
        if len(self._before) > MOST_ADDRESSES:
            _keep_the_heaviest(self._before)
        self._periods.append(self.now)
        for _ in range(min(PERIODS, period - self._period - 1)):
            self._periods.append({})
        self.now = {}
        self._period = period

    def heaviest(self, by: By, limit: int, *, last_seconds: int | None) -> Sequence[Client]:
        """The addresses with the most of a figure, above 0: of the last seconds, or since the start."""
        table = self._table(last_seconds)
        found = nlargest(limit, table.items(), key=lambda item: getattr(item[1], by))
        return [self._client(address, each) for address, each in found if getattr(each, by)]

    def find(self, address: str, *, last_seconds: int | None) -> Client | None:
        """The figures of one address; None if they are not kept."""
        found = self._table(last_seconds).get(address)
        return None if found is None else self._client(address, found)

    def clear(self) -> None:
        """Forget everything but the requests that wait."""
        self.before_reading()
        self.now.clear()
        self._periods.clear()
        self._before.clear()

    def _client(self, address: str, figures: ClientFigures) -> Client:
        return Client(address, figures, self.waiting.get(address, 0))

    def _table(self, last_seconds: int | None) -> Mapping[str, ClientFigures]:
        self.turn()
        if last_seconds is None:
            return _sum((self._before, self.now))
        earlier = -(-last_seconds // PERIOD_SECONDS) - 1
        begun_before = islice(reversed(self._periods), earlier)
        return _sum((*begun_before, self.now))

    def _number_of_period(self) -> int:
        return self._clock.elapsed_us() // (PERIOD_SECONDS * _MICROSECONDS)


def _sum(tables: Iterable[Mapping[str, ClientFigures]]) -> dict[str, ClientFigures]:
    total: dict[str, ClientFigures] = {}
    for table in tables:
        for address, figures in table.items():
            total.setdefault(address, ClientFigures()).add(figures)
    return total


def _keep_the_heaviest(table: dict[str, ClientFigures]) -> None:
    """Keep some hundred addresses: the heaviest by requests, and by each other figure."""
    kept: set[str] = set()
    for by in ORDERS:
        kept.update(nlargest(_KEPT_OF_EACH_ORDER, table, key=lambda address: getattr(table[address], by)))
    for address in table.keys() - kept:
        del table[address]


class RecentCounts:
    """Counts by name of what requests have made: since the start, and in the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: dict[int, Counter[str]] = {}
        self.total: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        """Count one thing that was made, or several."""
        second = self._second()
        counts = self._seconds.get(second)
        if counts is None:
            self._seconds = {
                each: kept for each, kept in self._seconds.items() if each > second - _MINUTE_SECONDS
            }
            counts = self._seconds[second] = Counter()
        counts[name] += amount
        self.total[name] += amount

    def clear(self) -> None:
        """Forget everything."""
        self._seconds.clear()
        self.total.clear()

    def in_last_minute(self, name: str) -> int:
        """The number of things that were made in the last 60 seconds."""
        earliest = self._second() - _MINUTE_SECONDS
        return sum(counts[name] for second, counts in self._seconds.items() if second > earliest)

    def _second(self) -> int:
        return self._clock.elapsed_us() // _MICROSECONDS


# The times at which each side of a session was last seen, and its dapp's own name: in memory alone.
#
# A session is known by its own id and by the ids of its calls. When many are known, ids that were not seen
# for the longest time are forgotten.

_MOST_YOUNG = 20_000
_ID_IN_PATH = re.compile(r"\{(session_id|call_id):")


@dataclass(slots=True)
class Activity:
    """A session as its requests showed it, at elapsed microseconds; `prefix` begins its routes' names."""

    prefix: str
    dapp_at_us: int | None = None
    wallet_at_us: int | None = None
    dapp_name: str | None = None


See: TypeAlias = Callable[[Iterable[str], int], None]
"""Called with ids of sessions or calls that a side has asked for, and the elapsed time in microseconds."""


class Activities:
    """The sessions that were seen since the start."""

    def __init__(self, clock: Clock, most: int = _MOST_YOUNG) -> None:
        self._clock = clock
        self._most = most
        self._young: dict[str, Activity] = {}
        self._old: dict[str, Activity] = {}
        self._sees: dict[tuple[str, str], See] = {}
        self.before_reading: Callable[[], None] = lambda: None
        """Notes the requests that were put off."""

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, any_id: str) -> Activity | None:
        """The session of this id, or of the call of this id."""
        self.before_reading()
        return self._young.get(any_id) or self._old.get(any_id)

    def ago_ms(self, seen_at_us: int) -> int:
        """The time since then."""
        return max(0, self._clock.elapsed_us() - seen_at_us) // 1_000

    def clear(self) -> None:
        """Forget every session."""
        self.before_reading()
        self._young = {}
        self._old = {}

    def see_of(self, row: Route) -> See | None:
        """The function to call with the ids in the route's paths, shared by its side; None without any."""
        if row.who not in ("dapp", "wallet") or not id_in(row):
            return None
        prefix = traffic.prefix_of(row.name)
        return self._sees.setdefault((prefix, row.who), self._seeing(prefix, row.who == "dapp"))

    def note_session(self, prefix: str, answer: bytes) -> None:
        """Note the session that an answer to `POST /session/new` names."""
        session_id = orjson.loads(answer).get("sessionId")
        if isinstance(session_id, str):
            self._remember(session_id, prefix).dapp_at_us = self._clock.elapsed_us()

    def note_call(self, session_id: str, sent: bytes, answer: bytes) -> None:
        """Note the call that an answer names: from now on its id, too, leads to the session."""
        seen, call_id = self.of(session_id), orjson.loads(answer).get("callId")
        if seen is None or not isinstance(call_id, str):
            return
        self._add(call_id, seen)
        if seen.dapp_name is None:
            with suppress(ValueError):  # the relay reads numbers that orjson does not
                seen.dapp_name = orjson.loads(sent).get("dappName")

    def _seeing(self, prefix: str, is_dapp: bool) -> See:
        def see(ids: Iterable[str], at_us: int) -> None:
            young = self._young
            for any_id in ids:
                seen = young.get(any_id)
                if seen is None:
                    seen, young = self._remember(any_id, prefix), self._young
                if is_dapp:
                    seen.dapp_at_us = at_us
                else:
                    seen.wallet_at_us = at_us

        return see

    def _remember(self, any_id: str, prefix: str) -> Activity:
        return self._add(any_id, self._old.get(any_id) or Activity(prefix))

    def _add(self, any_id: str, seen: Activity) -> Activity:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[any_id] = seen
        return seen


def id_in(row: Route) -> str:
    """The name, in the path, of the id of a session, or of a call if the path has none of a session."""
    found = _ID_IN_PATH.search(row.path)
    return "" if found is None else found[1]


class HeldPoll(NamedTuple):
    """A long poll that is held: the address of its client, and its entry in the record (None without one)."""

    address: str
    recorded: traffic.Recorded | None


Begin: TypeAlias = Callable[[web.Request], HeldPoll | None]
"""Called with each request of a route that may hold it, before its handler; returns the poll if it asks to
wait."""
Note: TypeAlias = Callable[[web.Request, web.StreamResponse | None, int, float, float, HeldPoll | None], None]
"""Called with each request when it is over: the request, its answer (None: the client has left), the status,
when it began (of the performance counter), the seconds that it took, and the poll that was held."""


class Observer:
    """Counts requests of clients, and records them unless `record` is None; none of the sides in LEFT_OUT."""

    def __init__(
        self,
        record: traffic.TrafficLog | None,
        clients: Clients,
        activities: Activities,
        made: RecentCounts,
        addresses: ClientAddresses,
        clock: Clock,
    ) -> None:
        self._record = record
        self._clients = clients
        self._activities = activities
        self._made = made
        self._addresses = addresses
        self._clock = clock
        self._pending: list[Any] = []
        """Requests that are counted later, five values of each: its kind; its path with its query, as it was
        sent; when it began (of the performance counter); the seconds that it took; the address of its client.
        """
        self._sizes: list[tuple[str, int]] = []
        """Of answers that were put off: the address of the client, and the bytes of the body."""
        self._ids: dict[See, list[str]] = {}
        """The ids in the paths of requests that were put off, by the function that is called with them."""
        clients.before_reading = activities.before_reading = self.drain
        if record is not None:
            record.before_reading = self.drain

    def of_route(self, row: Route) -> tuple[Begin | None, Note | None]:
        """The functions to call before and after the route's requests; None where none is needed."""
        if row.who in LEFT_OUT:
            return None, None
        return (self._begin_of(row) if row.waits else None), self._note_of(row)

    def _begin_of(self, row: Route) -> Begin:
        record, clients, addresses = self._record, self._clients, self._addresses

        def begin(request: web.Request) -> HeldPoll | None:
            if not asks_to_wait(request):
                return None
            address = getattr(request.protocol, "client", "") or addresses.counted(request)
            clients.begin_waiting(address)
            if record is None:
                return HeldPoll(address, None)
            exchange = traffic.Exchange(row.who, request.method, request.raw_path, row.name, 0, 0.0)
            return HeldPoll(address, record.begin(exchange))

        return begin

    def _note_of(self, row: Route) -> Note:
        rare = self._rare_of(row)
        if traffic.made_by(row.name) or row.body_limit_bytes or self._addresses.have_proxies:
            return rare
        drain, pending, sizes = self.drain, self._pending, self._sizes
        found, empty = (
            traffic.Kind(row.who, row.method, row.name, status) for status in (_FOUND, _NO_CONTENT)
        )
        see = self._activities.see_of(row)
        ids = None if see is None else self._ids.setdefault(see, [])

        def note(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: HeldPoll | None,
        ) -> None:  # fmt: skip
            try:
                path, any_id, address = noted_of(request)
            except AttributeError:
                address = ""
            if wait is not None or not address:
                rare(request, response, status, started, seconds, wait)
                return
            if status == _NO_CONTENT:
                pending.extend((empty, path, started, seconds, address))
            elif status == _FOUND:
                pending.extend((found, path, started, seconds, address))
                sizes.append((address, len(_body_of(response))))
            else:
                rare(request, response, status, started, seconds, wait)
                return
            if ids is not None:
                ids.append(any_id)
            if len(pending) >= _MOST_PENDING_VALUES:
                drain()

        return note

    def drain(self) -> None:
        """Count and record the requests that were put off; every reader of the record calls it first."""
        if not self._pending:
            return
        kinds, paths, began, took, addresses = (
            self._pending[i::_VALUES_OF_ONE] for i in range(_VALUES_OF_ONE)
        )
        self._pending.clear()
        record, figures_of = self._record, self._clients.figures
        if record is not None:
            record.add(traffic.batch_of(record.last_number + 1, kinds, paths, began, took))
        for address, requests in Counter(addresses).items():
            figures_of(address).requests += requests
        for address, size in self._sizes:
            figures_of(address).bytes += size
        self._sizes.clear()
        for see, ids in self._ids.items():
            if ids:
                see(set(ids), self._clock.elapsed_us())  # polls ask for one id again and again
                ids.clear()

    def _rare_of(self, row: Route) -> Note:
        """Records a request that made something, waited, failed or sent a body, at once."""
        who, name, makes, id_name = row.who, row.name, traffic.made_by(row.name), id_in(row)
        clients, addresses, see = self._clients, self._addresses, self._activities.see_of(row)
        drain, pending = self.drain, self._pending

        def rare(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: HeldPoll | None,
        ) -> None:  # fmt: skip
            body = _body_of(response)
            address = getattr(request.protocol, "client", "") or addresses.counted(request)
            side = who if status != _FORBIDDEN or "Origin" not in request.headers else _PAGE
            about = body if makes or status >= traffic.FIRST_FAILURE else b""
            if wait is None:
                kind = traffic.Kind(side, request.method, name, status, about)
                pending.extend((kind, request.raw_path, started, seconds, address))
                if len(pending) >= _MOST_PENDING_VALUES:
                    drain()
            else:
                clients.figures(address).requests += 1
                self._end_poll(wait, side, status, about, seconds)
            figures = clients.figures(address)
            figures.bytes += len(body) + (request.content_length or 0)
            if status == _TOO_MANY_REQUESTS:
                figures.refuse(request.get(REFUSED_BY, name))
            elif status == _SWITCHING_PROTOCOLS:
                figures.sockets += 1
            elif status < traffic.FIRST_FAILURE:
                if see is not None:
                    see((request.match_info[id_name],), self._clock.elapsed_us())
                if makes:
                    figures.sessions += makes == "session"
                    self._note_made(name, request, body)

        return rare

    def _note_made(self, route: str, request: web.Request, answer: bytes) -> None:
        """Count a session or a call that was made, and know it by its id from now on."""
        makes = traffic.made_by(route)
        self._made.count(makes)
        if makes == "session":
            self._activities.note_session(traffic.prefix_of(route), answer)
        else:
            self._activities.note_call(request.match_info["session_id"], body_of(request) or b"{}", answer)

    def _end_poll(self, poll: HeldPoll, side: str, status: int, about: bytes, seconds: float) -> None:
        self._clients.end_waiting(poll.address)
        if self._record is not None and poll.recorded is not None:
            exchange = poll.recorded.exchange
            exchange.who, exchange.status, exchange.about = side, status, about
            exchange.milliseconds, exchange.waited_seconds = round(seconds * 1_000, 1), round(seconds, 3)
            self._record.finish(poll.recorded, exchange)


def asks_to_wait(request: web.Request) -> bool:
    """Whether the request asks to be held until there is something to answer."""
    headers = request.headers
    if PREFER in headers and preferred_wait(headers):
        return True
    return bool(request.rel_url.raw_query_string) and request.query.get("wait", "0") != "0"


def _body_of(response: web.StreamResponse | None) -> bytes:
    body = response.body if isinstance(response, web.Response) else None
    return body if isinstance(body, bytes) else b""
