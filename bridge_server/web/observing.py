"""The record of requests and the figures of clients, as the outermost layer fills them in production.

A request that did not wait and made nothing, as most polls, leaves a few values in columns, and these are
counted and recorded together: that costs a quarter of what each would cost at its end.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.web.aiohttp_internals import client_of, has_known_requests, head_of, path_names_of
from bridge_server.web.batches import Kind, batch_of
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.clients import Clients
from bridge_server.web.exchanges import FIRST_FAILURE, Exchange, Recorded
from bridge_server.web.lately import Lately
from bridge_server.web.prefer import PREFER, preferred_seconds
from bridge_server.web.routes import Route
from bridge_server.web.traffic import TrafficLog

LEFT_OUT = frozenset({"console", "operator", "test"})
"""The sides whose requests are left out: an operator who looks would fill the record."""

REFUSED_BY = web.RequestKey("refused_by", str)
"""The limit that refused a request."""

_FOUND = 200
_NO_CONTENT = 204
_MOST_PENDING = 64
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
_PutOff: TypeAlias = tuple[Kind, str, float, float, str]
"""A request: its kind, its path as it was sent, with its query; when it began (of the performance counter),
how many seconds it took; the address of its client."""
_NoteEnd: TypeAlias = Callable[[web.Request, str, int, bytes, float, float, HeldPoll | None], None]


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
        self._pending: list[_PutOff] = []
        self._sizes: list[tuple[str, int]] = []
        """The addresses to which bodies were answered, and their bytes."""
        self._ids: dict[Callable[[Sequence[str], int], None], list[str]] = {}
        """The ids that requests were about, by what is to be called with them."""
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

        is_known = has_known_requests()

        def begin(request: web.Request) -> HeldPoll | None:
            if is_known:
                head = head_of(request)
                if "?" not in head.path and PREFER not in head.headers:
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
        rare = self._rare_of(row)
        if row.makes or row.body_limit_bytes or self._addresses.have_proxies or not has_known_requests():
            return rare
        drain, pending, sizes, id_name, own_method = (
            self.drain, self._pending, self._sizes, row.id_name, row.method
        )  # fmt: skip
        found, empty = (Kind(row.who, own_method, row.name, status) for status in (_FOUND, _NO_CONTENT))
        ids = None if row.on_answers is None else self._ids.setdefault(row.on_answers, [])

        def note(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: HeldPoll | None,
        ) -> None:  # fmt: skip
            head = head_of(request)
            try:
                address = client_of(request)
            except AttributeError:  # a connection that is not guarded
                address = ""
            if wait is not None or head.method != own_method or not address:
                rare(request, response, status, started, seconds, wait)
                return
            if status == _NO_CONTENT:
                pending.append((empty, head.path, started, seconds, address))
            elif status == _FOUND:
                pending.append((found, head.path, started, seconds, address))
                sizes.append((address, len(_body_of(response))))
            else:
                rare(request, response, status, started, seconds, wait)
                return
            if ids is not None:
                ids.append(path_names_of(request)[id_name])
            if len(pending) >= _MOST_PENDING:
                drain()

        return note

    def drain(self) -> None:
        """Count and record the requests that were put off. Every reader of the records calls it first."""
        if not self._pending:
            return
        kinds, paths, began, took, addresses = zip(*self._pending, strict=True)
        self._pending.clear()
        record, figures_of = self._record, self._clients.figures
        if record is not None:
            record.add(batch_of(record.last_number + 1, kinds, paths, began, took))
        for address, requests in Counter(addresses).items():
            figures_of(address).requests += requests
        for address, size in self._sizes:
            figures_of(address).bytes += size
        self._sizes.clear()
        for see, ids in self._ids.items():
            if ids:
                see(ids, self._clock.elapsed_us())
                ids.clear()

    def _rare_of(self, row: Route) -> Note:
        """Notes a request that is more than a plain read."""
        makes, name, count_made, note_end = row.makes, row.name, self._made.count, self._note_end_of(row)
        clients, addresses, on_answers, on_made = self._clients, self._addresses, row.on_answers, row.on_made
        id_name, elapsed_us = row.id_name, self._clock.elapsed_us

        def rare(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: HeldPoll | None,
        ) -> None:  # fmt: skip
            body = _body_of(response)
            address = getattr(request.protocol, "client", "") or addresses.counted(request)
            note_end(request, address, status, body, started, seconds, wait)
            figures = clients.figures(address)
            figures.bytes += len(body) + (request.content_length or 0)
            if status == _TOO_MANY_REQUESTS:
                figures.refuse(request.get(REFUSED_BY, name))
            elif status == _SWITCHING_PROTOCOLS:
                figures.sockets += 1
            elif status < FIRST_FAILURE:
                if makes:
                    count_made(makes)
                    figures.sessions += makes == "session"
                if on_answers is not None:
                    on_answers((request.match_info[id_name],), elapsed_us())
                if on_made is not None:
                    on_made(request, body)

        return rare

    def _note_end_of(self, row: Route) -> _NoteEnd:
        """Counts and records a request of an address."""
        record, clients, who, name, makes = self._record, self._clients, row.who, row.name, row.makes
        drain, pending = self.drain, self._pending

        def note_end(
            request: web.Request, address: str, status: int, body: bytes,
            started: float, seconds: float, wait: HeldPoll | None,
        ) -> None:  # fmt: skip
            side = who if status != _FORBIDDEN or "Origin" not in request.headers else _PAGE
            about = body if makes or status >= FIRST_FAILURE else b""
            if wait is None:
                kind = Kind(side, request.method, name, status, about)
                pending.append((kind, request.raw_path, started, seconds, address))
                if len(pending) >= _MOST_PENDING:
                    drain()
                return
            clients.end_waiting(wait.address)
            clients.figures(address).requests += 1
            if record is not None and wait.recorded is not None:
                exchange = wait.recorded.exchange
                exchange.who, exchange.status, exchange.about = side, status, about
                exchange.milliseconds, exchange.waited_seconds = round(seconds * 1_000, 1), round(seconds, 3)
                record.finish(wait.recorded, exchange)

        return note_end


def asks_to_wait(request: web.Request) -> bool:
    """Whether the request asks to be held until there is something to answer."""
    headers = request.headers
    if PREFER in headers and preferred_seconds(",".join(headers.getall(PREFER))):
        return True
    return bool(request.rel_url.raw_query_string) and request.query.get("wait", "0") != "0"


def _body_of(response: web.StreamResponse | None) -> bytes:
    body = response.body if isinstance(response, web.Response) else None
    return body if isinstance(body, bytes) else b""
