"""The record of requests and the figures of clients, as the outermost layer fills them in production.

It costs every request about a microsecond, since it keeps what is at hand and computes nothing of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.clients import ClientFigures, Clients
from bridge_server.web.lately import Lately
from bridge_server.web.prefer import preferred_seconds
from bridge_server.web.routes import Route
from bridge_server.web.traffic import FIRST_FAILURE, Exchange, Recorded, Traffic

LEFT_OUT = frozenset({"console", "operator", "test"})
"""The sides whose requests are left out: an operator who looks would fill the record."""

REFUSED_BY = web.RequestKey("refused_by", str)
"""The limit that refused a request."""

_NO_CONTENT = 204
_PLAIN = frozenset({200, 204})
_SWITCHING_PROTOCOLS = 101
_FORBIDDEN = 403
_TOO_MANY_REQUESTS = 429
_PAGE = "page"


@dataclass(frozen=True, slots=True)
class Wait:
    """A long poll that is held: its client's address, and how it is shown."""

    address: str
    recorded: Recorded | None


Begin: TypeAlias = Callable[[web.Request], Wait | None]
"""Called with each request of a route that may hold it."""
Note: TypeAlias = Callable[[web.Request, web.StreamResponse | None, int, float, float, Wait | None], None]
"""Called with each request, its answer (None: the client has left) and status, its beginning, its seconds."""
_Rare: TypeAlias = Callable[
    [web.Request, web.StreamResponse | None, int, float, float, Wait | None, ClientFigures], None
]
_Keep: TypeAlias = Callable[[web.Request, int, bytes, float, float, Wait | None], None]


class Observer:
    """Watches the requests of all routes but those of operators and tests.

    `record` is None when no record is kept here.
    """

    def __init__(
        self, record: Traffic | None, clients: Clients, made: Lately, addresses: ClientAddresses
    ) -> None:
        self._record = record
        self._clients = clients
        self._made = made
        self._addresses = addresses

    def of_route(self, row: Route) -> tuple[Begin | None, Note | None]:
        """What is to be called with the requests of this route."""
        if row.who in LEFT_OUT:
            return None, None
        return (self._begin_of(row) if row.waits else None), self._note_of(row)

    def _begin_of(self, row: Route) -> Begin:
        record, clients, addresses = self._record, self._clients, self._addresses

        def begin(request: web.Request) -> Wait | None:
            if not asks_to_wait(request):
                return None
            address = getattr(request.protocol, "client", "") or addresses.counted(request)
            clients.begin_waiting(address)
            if record is None:
                return Wait(address, None)
            exchange = Exchange(row.who, request.method, request.raw_path, row.name, 0, 0.0)
            return Wait(address, record.begin(exchange))

        return begin

    def _note_of(self, row: Route) -> Note:
        clients, addresses, record, rare = self._clients, self._addresses, self._record, self._rare_of(row)
        append = None if record is None else record.kept.append
        who, name, on_answer, is_plain = row.who, row.name, row.on_answer, not row.makes
        has_body, known, figures_of = row.body_limit_bytes > 0, clients.now.get, clients.figures

        def note(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: Wait | None,
        ) -> None:  # fmt: skip
            figures = known(getattr(request.protocol, "client", "")) or figures_of(addresses.counted(request))
            figures.requests += 1
            if status != _NO_CONTENT:
                figures.bytes += len(_body_of(response))
            if has_body:
                figures.bytes += request.content_length or 0
            if status not in _PLAIN or not is_plain or wait is not None:
                rare(request, response, status, started, seconds, wait, figures)
            elif record is not None and append is not None:
                record.last_number = number = record.last_number + 1
                append((number, who, request.method, request.raw_path, name, status, started, seconds, b""))
            if on_answer is not None and response is not None and status < FIRST_FAILURE:
                on_answer(request, response)

        return note

    def _rare_of(self, row: Route) -> _Rare:
        """Does what few requests need: they were held, make something, open a socket, or are refused."""
        makes, name, count_made, keep = row.makes, row.name, self._made.count, self._keep_of(row)
        clients = self._clients

        def rare(
            request: web.Request, response: web.StreamResponse | None, status: int,
            started: float, seconds: float, wait: Wait | None, figures: ClientFigures,
        ) -> None:  # fmt: skip
            if keep is not None:
                keep(request, status, _body_of(response), started, seconds, wait)
            if wait is not None:
                clients.end_waiting(wait.address)
            if status == _TOO_MANY_REQUESTS:
                figures.refuse(request.get(REFUSED_BY, name))
            elif status == _SWITCHING_PROTOCOLS:
                figures.sockets += 1
            elif makes and status < FIRST_FAILURE:
                count_made(makes)
                figures.sessions += makes == "session"

        return rare

    def _keep_of(self, row: Route) -> _Keep | None:
        """Adds a request to the record."""
        record, who, name, makes = self._record, row.who, row.name, row.makes
        if record is None:
            return None
        append = record.kept.append

        def keep(
            request: web.Request, status: int, body: bytes, started: float, seconds: float, wait: Wait | None
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
