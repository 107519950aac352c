"""The layers around a handler, one function each, and the coroutine that runs them; `Gateway.layers` of
`web/serving.py` has their order. A layer is what it does on entering and on leaving, as plain functions: a
coroutine for each layer would cost more than the layers do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import NamedTuple, TypeAlias

from aiohttp import hdrs, web

from bridge_server.kernel import errors
from bridge_server.web import aiohttp_internals, metrics, open_connections, prefer, problems, sockets, traffic
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.answers import EventStream, declare_on, name_on, share_on, share_with
from bridge_server.web.limits import NOTHING_CHARGED, Charged, QuotaError, TokenBuckets, declare, far_from
from bridge_server.web.recorder import LEFT_OUT, REFUSED_BY, HeldPoll, Note, Observer, asks_to_wait
from bridge_server.web.request_log import RequestLines, note_failure, note_refusal
from bridge_server.web.routes import AllowedOrigins, Handler, Identify, Route

_SWITCHING_PROTOCOLS = 101
_TOO_MANY_REQUESTS = 429
_FORBIDDEN = 403
_NO_VALID_BEARER = "Send a valid token as 'Authorization: Bearer TOKEN'."
_BODY_TIMEOUT_SECONDS = 20.0

CALLER_KEY = web.RequestKey("caller_key", str)
"""The key of the caller's buckets, in a request whose route identifies callers."""


class Passage:
    """A request on its way through the layers, and what they note on entering to know it on leaving."""

    request: web.Request
    request_id = ""
    started = 0.0
    held: HeldPoll | None = None
    """The long poll that it is, for the figures of clients."""
    recorded: traffic.Recorded | None = None
    """The long poll that it is, in the record of test mode."""
    standing: tuple[str, str] | None = None
    """The header fields RateLimit-Policy and RateLimit, if all of its limits are far."""
    charged: Charged = NOTHING_CHARGED
    """The charge, if one of its limits is near."""


class Layer(NamedTuple):
    """The layers of a route: each acts on a request before and after the handler. `enter` may raise an error,
    which is answered. `leave` gets every answer, and does not raise. Either may return an awaitable, which is
    awaited. `depart` is called instead of `leave` if the client has left.
    """

    enter: Callable[[Passage], Awaitable[None] | None] | None = None
    leave: Callable[[Passage, web.StreamResponse], Awaitable[None] | None] | None = None
    depart: Callable[[Passage], None] | None = None


def behind(layers: Iterable[Layer | None], handler: Handler, row: Route) -> Handler:
    """The handler behind the layers, outermost first. Errors are answered, but for a client's departure."""
    each = [layer for layer in layers if layer is not None]
    enters = list(filter(None, (layer.enter for layer in each)))
    leaves = list(filter(None, (layer.leave for layer in reversed(each))))
    departs = list(filter(None, (layer.depart for layer in reversed(each))))
    finish = leaves.pop()  # the outermost layer's: once it is called, the request is over for all others

    async def answer(request: web.Request) -> web.StreamResponse:
        passage = Passage()
        passage.request = request
        try:
            try:
                for enter in enters:
                    if (later := enter(passage)) is not None:
                        await later
                response = await handler(request)
            except Exception as error:
                request[problems.REQUEST_ID] = passage.request_id
                response = answer_to(error, request, row.name)
            for leave in leaves:
                if (later := leave(passage, response)) is not None:
                    await later
        except asyncio.CancelledError:
            for depart in departs:
                depart(passage)
            raise
        if (later := finish(passage, response)) is not None:
            await later
        return response

    return answer


def request_log(
    row: Route,
    request_ids: problems.RequestIds,
    connections: open_connections.Connections,
    figures: metrics.RequestFigures,
    lines: RequestLines,
    observer: Observer | None,
) -> Layer:
    """Name and count every request of the route; while the server stops, end its connection. The observer is
    called here, and has no layer of its own, which would cost more than it does.
    """
    name, count = request_ids.name, figures.of_route(row.name).count
    begin, note = (None, None) if observer is None else observer.of_route(row)

    def enter(passage: Passage) -> None:
        passage.started = perf_counter()
        passage.request_id = name(passage.request)
        if row.reads_id:
            passage.request[problems.REQUEST_ID] = passage.request_id
        if begin is not None:
            passage.held = None if aiohttp_internals.is_plain(passage.request) else begin(passage.request)

    def depart(passage: Passage) -> None:
        seconds = perf_counter() - passage.started
        count(traffic.CLIENT_LEFT, seconds)
        if note is not None:
            note(passage.request, None, traffic.CLIENT_LEFT, passage.started, seconds, passage.held)

    return Layer(enter, _ending(row, connections, count, lines, note), depart)


def _ending(
    row: Route,
    connections: open_connections.Connections,
    count: Callable[[int, float], None],
    lines: RequestLines,
    note: Note | None,
) -> Callable[[Passage, web.StreamResponse], Awaitable[None] | None]:
    noteworthy_seconds = lines.noteworthy_seconds

    def leave(passage: Passage, response: web.StreamResponse) -> Awaitable[None] | None:
        name_on(response, passage.request_id)
        if connections.is_stopping:
            response.force_close()
        status = response.status
        if status == _SWITCHING_PROTOCOLS and not response.prepared:
            return switched(passage, response)
        request, started = passage.request, passage.started
        seconds = perf_counter() - started
        count(status, seconds)
        if seconds > noteworthy_seconds or status >= _TOO_MANY_REQUESTS:
            request[problems.REQUEST_ID] = passage.request_id
            lines.note(request, row, status, seconds)
        if note is not None:
            note(request, response, status, started, seconds, passage.held)
        return None

    async def switched(passage: Passage, response: web.StreamResponse) -> None:
        try:  # the handler runs meanwhile: afterwards aiohttp goes on as if the upgrade was declined
            await response.prepare(passage.request)
        except ConnectionError as error:
            raise asyncio.CancelledError from error
        leave(passage, response)

    return leave


def plain_chunks() -> Layer:
    """Refuse a transfer coding besides chunked: aiohttp would not decode the body."""

    def enter(passage: Passage) -> None:
        headers = passage.request.headers
        if hdrs.TRANSFER_ENCODING in headers and (
            headers[hdrs.TRANSFER_ENCODING].strip().lower() != "chunked"
        ):
            raise errors.InvalidInputError(
                "Send the body as it is, or in chunks (Transfer-Encoding: chunked), "
                "without another transfer coding."
            )

    return Layer(enter)


def answer_to(error: Exception, request: web.Request, route: str) -> web.StreamResponse:
    """The problem that answers an error. Raises CancelledError when the client has left."""
    request_id = request[problems.REQUEST_ID]
    if isinstance(error, errors.BridgeError):
        response = problems.problem_of_error(error, request)
        if isinstance(error, QuotaError):
            declare(error.charges, response)
        if isinstance(error, errors.LimitError):
            request[REFUSED_BY] = error.code if not isinstance(error, QuotaError) else error.limit_name
        note_refusal(request, route, response.status, error, request_id)
        return response
    if isinstance(error, web.HTTPException):
        note_refusal(request, route, error.status, problems.code_of_http(error), request_id)
        return problems.problem_of_http(error, request)
    if isinstance(error, _OrderedAnswer):
        return problems.problem_of_ordered_fault(error.status, error.retry_after_seconds, request)
    if isinstance(error, ConnectionError):  # the client left while its request was read
        raise asyncio.CancelledError from error
    note_failure(request, error, request_id)
    return problems.problem_of_bug(request)


# Cross-origin requests (the Fetch standard): dapps call the bridge from web pages of any origin, and
# inboxes are read from the web pages of configured ones. No credentials are involved.


def cors(any_origin: bool, origins: AllowedOrigins) -> Layer | None:
    """Let web pages of other origins read the route's answers; None for a route that no page may call."""

    def share_with_any(passage: Passage, response: web.StreamResponse) -> None:
        if hdrs.ORIGIN in passage.request.headers:
            share_on(response)

    def share_with_some(passage: Passage, response: web.StreamResponse) -> None:
        origin = passage.request.headers.get(hdrs.ORIGIN)
        share_with(response, origin, is_allowed=origin is not None and origin in origins)

    if any_origin:
        return Layer(leave=share_with_any)
    return Layer(leave=share_with_some) if origins else None


# Authentication: a route's guard, its bearer token (RFC 6750), its caller.


def bearer(row: Route) -> Layer | None:
    """Keep out every request that may not call the route; None for a route without authentication."""
    access = row.access
    guard, may_pass, identify, on_refusal = access.guard, access.bearer, access.identify, access.on_refusal
    if guard is None and may_pass is None and identify is None:
        return None

    def enter(passage: Passage) -> Awaitable[None] | None:
        request = passage.request
        try:
            if guard is not None:
                guard(request)
            if may_pass is not None:
                token = _token(request)
                if token is None or not may_pass(token):
                    raise errors.NotAuthenticatedError(_NO_VALID_BEARER)
        except errors.BridgeError as error:
            if on_refusal is not None:
                on_refusal(request, error)
            raise
        return None if identify is None else _require_caller(request, identify, access.without_caller)

    return Layer(enter)


async def _require_caller(
    request: web.Request, identify: Identify, why: Callable[[web.Request], str] | None
) -> None:
    """Keep the key of the caller whose token the request carries. Raises NotAuthenticatedError."""
    token = _token(request)
    key = None if token is None else await identify(request, token)
    if key is None:
        raise errors.NotAuthenticatedError(_NO_VALID_BEARER if why is None else why(request))
    request[CALLER_KEY] = key


def _token(request: web.Request) -> str | None:
    values = request.headers.getall("Authorization", [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None


# Rate limits of a route: token buckets per client address, or per authenticated caller.


def rate_limits(
    row: Route, addresses: ClientAddresses, quotas: TokenBuckets, save: Callable[[], Awaitable[None]]
) -> Layer | None:
    """Charge each request, and declare what is left on its answer; None for a route without limits."""
    assert not (row.limits and row.caller_limits), f"{row.name} has limits of both kinds"
    assert row.access.identify or not row.caller_limits, (
        f"{row.name} limits callers that it does not identify"
    )
    if row.caller_limits:
        return Layer(_charging_callers(row, quotas), _declaring(quotas, save))
    return Layer(_charging_addresses(row, addresses, quotas), _declare_standing) if row.limits else None


def _charging_addresses(
    row: Route, addresses: ClientAddresses, quotas: TokenBuckets
) -> Callable[[Passage], Awaitable[None] | None]:
    limits, charge, bucket_key = row.limits, quotas.charge, addresses.bucket_key
    charge_far = far_from(limits, quotas)

    def enter(passage: Passage) -> Awaitable[None] | None:
        address = bucket_key(passage.request)
        if address is None:
            return None
        passage.standing = charge_far(address)
        if passage.standing is not None:
            return None
        charged = charge(address, limits)
        if charged.later is not None:
            return _note_charges(passage, charged.later)
        passage.charged = charged
        return None

    return enter


def _charging_callers(row: Route, quotas: TokenBuckets) -> Callable[[Passage], Awaitable[None] | None]:
    limits, dry_run_limits, charge = row.caller_limits, row.dry_run_limits, quotas.charge
    charge_far = far_from(limits, quotas)

    def enter(passage: Passage) -> Awaitable[None] | None:
        request = passage.request
        caller = request[CALLER_KEY]
        if request.method == hdrs.METH_HEAD:  # nothing is looked up, and nothing charged
            charged = quotas.standings(caller, limits)
        elif dry_run_limits and prefer.asks_for_dry_run(request):
            charged = charge(caller, dry_run_limits)
        else:
            passage.standing = charge_far(caller)
            if passage.standing is not None:
                return None
            charged = charge(caller, limits)
        if charged.later is not None:
            return _note_charges(passage, charged.later)
        passage.charged = charged
        return None

    return enter


async def _note_charges(passage: Passage, later: Awaitable[Charged]) -> None:
    passage.charged = await later


def _declare_standing(passage: Passage, response: web.StreamResponse) -> None:
    if passage.standing is not None:
        declare_on(response, *passage.standing)
    elif passage.charged is not NOTHING_CHARGED:
        declare(passage.charged.charges, response)


def _declaring(
    quotas: TokenBuckets, save: Callable[[], Awaitable[None]]
) -> Callable[[Passage, web.StreamResponse], Awaitable[None] | None]:
    """Declares what is left of the caller's limits, once its charges are on disk."""

    def leave(passage: Passage, response: web.StreamResponse) -> Awaitable[None] | None:
        _declare_standing(passage, response)
        return None if quotas.is_kept(passage.charged) else _keep(save, response)

    return leave


async def _keep(save: Callable[[], Awaitable[None]], response: web.StreamResponse) -> None:
    """Wait until the charges are on disk: a restart must not give them back. The answer stands."""
    try:
        with suppress(errors.UnavailableError):
            await save()
    except BaseException:  # the client has left
        if isinstance(response, sockets.Socket | EventStream):
            response.abandon()
        raise


# A request's body, received before the handler runs: whole, bounded in size and in time.


def body(limit_bytes: int) -> Layer | None:
    """Receive a body of at most `limit_bytes`; None for a route that reads none."""
    if not limit_bytes:
        return None

    def enter(passage: Passage) -> Awaitable[None] | None:
        request = passage.request
        try:
            received = aiohttp_internals.take_body(request)
        except web.RequestPayloadError as error:
            raise _broken() from error
        if received is None:
            length = request.content_length
            if length is None or length <= limit_bytes:
                return _receive(request, limit_bytes)
        elif len(received) <= limit_bytes:
            return None
        raise _too_large(limit_bytes)

    return Layer(enter)


async def _receive(request: web.Request, limit_bytes: int) -> None:
    """Read the whole body, which aiohttp keeps for `request.read()`. Raises TooLargeError, TooSlowError for a
    body that does not arrive whole in time, and InvalidInputError for a broken encoding.
    """
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_SECONDS):
            received = await request.read()
    except TimeoutError as error:
        raise errors.TooSlowError(f"The body did not arrive within {_BODY_TIMEOUT_SECONDS:.0f} s.") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(limit_bytes) from error
    except web.RequestPayloadError as error:
        raise _broken() from error
    if len(received) > limit_bytes:
        raise _too_large(limit_bytes)


def _broken() -> errors.InvalidInputError:
    return errors.InvalidInputError("The body's transfer or content encoding is broken.")


def _too_large(limit_bytes: int) -> errors.TooLargeError:
    return errors.TooLargeError(f"This route accepts at most {limit_bytes} bytes.")


# Faults that a test has ordered for requests; composed only in test mode.


class RequestFault(NamedTuple):
    """A fault of one request: a delay, then perhaps a status, or a closed connection (`drop`)."""

    delay_ms: int = 0
    drop: bool = False
    status: int | None = None
    retry_after_seconds: int | None = None


Strike: TypeAlias = Callable[[str], RequestFault | None]
"""The fault that strikes the next request of the route with this name."""


class _OrderedAnswer(Exception):  # noqa: N818 - it is no error: the test has ordered it
    def __init__(self, status: int, retry_after_seconds: int | None) -> None:
        super().__init__()
        self.status, self.retry_after_seconds = status, retry_after_seconds


def faults(row: Route, strike: Strike | None) -> Layer | None:
    """Have ordered faults strike the route; None outside of test mode, and for routes that only observe."""
    if strike is None or row.only_observes:
        return None
    route = row.name

    def enter(passage: Passage) -> Awaitable[None] | None:
        fault = strike(route)
        return None if fault is None else _suffer(passage.request, fault)

    return Layer(enter)


async def _suffer(request: web.Request, fault: RequestFault) -> None:
    if fault.delay_ms:
        await asyncio.sleep(fault.delay_ms / 1_000)
    if fault.drop:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError  # as if the client had left
    if fault.status is not None:
        raise _OrderedAnswer(fault.status, fault.retry_after_seconds)


# The record of every request with its contents; composed only in test mode.
#
# In production the record keeps no contents, and the outermost layer fills it (`web/recorder.py`).


def recording(row: Route, record: traffic.TrafficLog | None) -> Layer | None:
    """Record every request of the route; None without a record, and for routes that are left out of it."""
    if record is None or not record.keeps_contents or row.who in LEFT_OUT:
        return None

    def enter(passage: Passage) -> None:
        request = passage.request
        if row.waits and asks_to_wait(request):
            exchange = traffic.Exchange(row.who, request.method, request.path_qs, row.name, 0, 0.0)
            passage.recorded = record.begin(exchange)

    async def leave(passage: Passage, response: web.StreamResponse) -> None:
        keep(passage, response, await _sent_body(row, passage.request))

    def depart(passage: Passage) -> None:
        keep(passage, None, b"")

    def keep(passage: Passage, response: web.StreamResponse | None, sent: bytes) -> None:
        exchange = _exchange(row, passage, response, sent)
        if passage.recorded is None:
            record.note(exchange)
        else:
            record.finish(passage.recorded, exchange)

    return Layer(enter, leave, depart)


def _exchange(
    row: Route, passage: Passage, response: web.StreamResponse | None, sent: bytes
) -> traffic.Exchange:
    request, seconds = passage.request, perf_counter() - passage.started
    status = traffic.CLIENT_LEFT if response is None else response.status
    written = response.body if isinstance(response, web.Response) else None
    body = bytes(written) if isinstance(written, bytes | bytearray) else b""
    return traffic.Exchange(
        who="page" if status == _FORBIDDEN and "Origin" in request.headers else row.who,
        method=request.method,
        path=request.path_qs,
        route=row.name,
        status=status,
        milliseconds=round(seconds * 1_000, 1),
        waited_seconds=0.0 if passage.recorded is None else round(seconds, 3),
        summary=traffic.summary_of(row.name, status, sent, body),
        request=traffic.contents(request.headers, sent),
        answer=None if response is None else traffic.contents(response.headers, body),
        about=body if traffic.made_by(row.name) and status < traffic.FIRST_FAILURE else b"",
    )


async def _sent_body(row: Route, request: web.Request) -> bytes:
    """The body, if it was received: a request that was refused before is not read for the record."""
    if not row.body_limit_bytes or not request.content.is_eof():
        return b""
    try:
        return await request.read()
    except Exception:  # the handler has seen it, too, and the answer says so
        return b""
