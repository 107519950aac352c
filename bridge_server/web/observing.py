"""The record of requests and the figures of clients, as the outermost layer fills them in production.

It costs every poll about a microsecond, since it keeps what is at hand and computes nothing of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.web.client_address import UNKNOWN, ClientAddresses
from bridge_server.web.clients import Clients
from bridge_server.web.lately import Lately
from bridge_server.web.prefer import preferred_seconds
from bridge_server.web.routes import Route
from bridge_server.web.traffic import FIRST_FAILURE, Exchange, Recorded, TrafficLog

LEFT_OUT = frozenset({"console", "operator", "test"})
"""The sides whose requests are left out: an operator who looks would fill the record."""

REFUSED_BY = web.RequestKey("refused_by", str)
"""The limit that refused a request."""

_NO_CONTENT = 204
_MOST_PENDING = 64
_PLAIN = frozenset({200, 204})
_SWITCHING_PROTOCOLS = 101
_FORBIDDEN = 403
_TOO_MANY_REQUESTS = 429
_PAGE = "page"


@dataclass(frozen=True, slots=True)
class HeldPoll:
    """A long poll that is held: its client's address, and how it is shown."""

    address: str
    recorded: Recorded | None


Begin: TypeAlias = Callable[[web.Request], HeldPoll | None]
"""Called with each request of a route that may hold it."""
Note: TypeAlias = Callable[[web.Request, web.StreamResponse | None, int, float, float, HeldPoll | None], None]
"""Called with each request, its answer (None: the client has left) and status, its beginning, its seconds."""
_Rare: TypeAlias = Callable[
    [web.Request, web.StreamResponse | None, int, float, float, HeldPoll | None], None
]
_Pending: TypeAlias = tuple[Route, object, Mapping[str, str], str, str, int, float, float, int]
_Keep: TypeAlias = Callable[[web.Request, int, bytes, float, float, HeldPoll | None], None]


class Observer:
    """Watches the requests of all routes but those of operators and tests.

    `record` is None when no record is kept here.
    """

    def __init__(
        self,
        record: TrafficLog | None,
        clients: Clients,
        made: Lately,
        addresses: ClientAddresses,
        clock: Clock,
    ) -> None:
        self._record = record
        self._clients = clients
        self._made = made
        self._addresses = addresses
        self._clock = clock
        self._pending: list[_Pending] = []
        clients.before_reading = self.drain
        if record is not None:
            record.before_reading = self.drain

    def of_route(self, row: Route) -> tuple[Begin | None, Note | None]:
        """What is to be called with the requests of this route."""
        if row.who in LEFT_OUT:
            return None, None
        return (self._begin_of(row) if row.waits else None), self._note_of(row)

    def _begin_of(self, row: Route) -> Begin:
        record, clients, addresses = self._record, self._clients, self._addresses

        def begin(request: web.Request) -> HeldPoll | None:
            if "?" not in request.raw_path and "Prefer" not in request.headers:
                return None  # as most polls that do not wait
            if not asks_to_wait(request):
                return None
            address = getattr(request.protocol, "client", "") or addresses.counted(request)
            clients.begin_waiting(address)
            if record is None:
                return HeldPoll(address, None)
            exchange = Exchange(row.who, request.method, request.raw_path, row.name, 0, 0.0)
            return HeldPoll(address, record.begin(exchange))

        return begin

    def _note_of(self, row: Route) -> Note:
        """Plain reads are put off: together they cost half of what each would cost at its end."""
        rare, drain, pending, put_off = self._rare_of(row), self.drain, self._pending, self._pending.append
        is_plain, has_proxies = not row.makes and not row.body_limit_bytes, self._addresses.have_proxies

        def note(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: HeldPoll | None,
        ) -> None:  # fmt: skip
            if status in _PLAIN and is_plain and wait is None and not has_proxies:
                size = 0 if status == _NO_CONTENT else len(_body_of(response))
                put_off(
                    (row, request.protocol, request.match_info, request.method, request.raw_path,
                     status, started, seconds, size)
                )  # fmt: skip
                if len(pending) >= _MOST_PENDING:
                    drain()
            else:
                drain()
                rare(request, response, status, started, seconds, wait)

        return note

    def drain(self) -> None:
        """Count and record the requests that were put off. Every reader of the records calls it first."""
        if not self._pending:
            return
        record, known, figures_of = self._record, self._clients.now.get, self._clients.figures
        now_us = self._clock.elapsed_us()  # once for all of them: it costs as much as the rest
        for row, connection, ids, method, path, status, started, seconds, size in self._pending:
            address = getattr(connection, "client", "") or UNKNOWN
            figures = known(address) or figures_of(address)
            figures.requests += 1
            figures.bytes += size
            if record is not None:
                record.last_number = number = record.last_number + 1
                record.kept.append((number, row.who, method, path, row.name, status, started, seconds, b""))
            if row.on_answer is not None:
                row.on_answer(ids, now_us)
        self._pending.clear()

    def _rare_of(self, row: Route) -> _Rare:
        """Counts and records a request that is more than a plain read."""
        makes, name, count_made, keep = row.makes, row.name, self._made.count, self._keep_of(row)
        clients, addresses, on_answer, on_made = self._clients, self._addresses, row.on_answer, row.on_made
        elapsed_us = self._clock.elapsed_us

        def rare(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: HeldPoll | None,
        ) -> None:  # fmt: skip
            body = _body_of(response)
            figures = clients.figures(getattr(request.protocol, "client", "") or addresses.counted(request))
            figures.requests += 1
            figures.bytes += len(body) + (request.content_length or 0)
            if keep is not None:
                keep(request, status, body, started, seconds, wait)
            if wait is not None:
                clients.end_waiting(wait.address)
            if status == _TOO_MANY_REQUESTS:
                figures.refuse(request.get(REFUSED_BY, name))
            elif status == _SWITCHING_PROTOCOLS:
                figures.sockets += 1
            elif status < FIRST_FAILURE:
                if makes:
                    count_made(makes)
                    figures.sessions += makes == "session"
                if on_answer is not None:
                    on_answer(request.match_info, elapsed_us())
                if on_made is not None:
                    on_made(request, body)

        return rare

    def _keep_of(self, row: Route) -> _Keep | None:
        """Adds a request to the record."""
        record, who, name, makes = self._record, row.who, row.name, row.makes
        if record is None:
            return None
        append = record.kept.append

        def keep(
            request: web.Request,
            status: int,
            body: bytes,
            started: float,
            seconds: float,
            wait: HeldPoll | None,
        ) -> None:
            side = who if status != _FORBIDDEN or "Origin" not in request.headers else _PAGE
            about = body if makes or status >= FIRST_FAILURE else b""
            if wait is not None and wait.recorded is not None:
                exchange = wait.recorded.exchange
                exchange.who, exchange.status, exchange.about = side, status, about
                exchange.milliseconds, exchange.waited_seconds = round(seconds * 1_000, 1), round(seconds, 3)
                record.finish(wait.recorded, exchange)
                return
            record.last_number = number = record.last_number + 1
            append((number, side, request.method, request.raw_path, name, status, started, seconds, about))

        return keep


def asks_to_wait(request: web.Request) -> bool:
    """Whether the request asks to be held until there is something to answer."""
    headers = request.headers
    if "Prefer" in headers and preferred_seconds(",".join(headers.getall("Prefer"))):
        return True
    return bool(request.rel_url.raw_query_string) and request.query.get("wait", "0") != "0"


def _body_of(response: web.StreamResponse | None) -> bytes:
    body = response.body if isinstance(response, web.Response) else None
    return body if isinstance(body, bytes) else b""
