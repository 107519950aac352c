"""The layers around a handler, one function each; `web/serving.py` has their order."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import NamedTuple, TypeAlias

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict

from bridge_server.kernel.errors import (
    BridgeError,
    InvalidInputError,
    LimitError,
    NotAuthenticatedError,
    TooLargeError,
    TooSlowError,
    UnavailableError,
)
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.answers import EventStream, ready_made
from bridge_server.web.limits import NOTHING_CHARGED, Charged, QuotaError, TokenBuckets, declare
from bridge_server.web.metrics import RequestFigures
from bridge_server.web.open_connections import Connections
from bridge_server.web.prefer import asks_for_dry_run
from bridge_server.web.problems import (
    REQUEST_ID,
    REQUEST_ID_HEADER,
    RequestIds,
    code_of_http,
    problem_of_bug,
    problem_of_error,
    problem_of_http,
    problem_of_ordered_fault,
)
from bridge_server.web.recorder import LEFT_OUT, REFUSED_BY, Observer, asks_to_wait
from bridge_server.web.request_log import RequestLines, note_failure, note_refusal
from bridge_server.web.routes import AllowedOrigins, Identify, Route
from bridge_server.web.sockets import Socket
from bridge_server.web.traffic import CLIENT_LEFT, FIRST_FAILURE, Exchange, TrafficLog, contents

_SWITCHING_PROTOCOLS = 101
_TOO_MANY_REQUESTS = 429

_EXPOSED = "Link, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"
_PREFLIGHT_HEADERS = ready_made({"Access-Control-Max-Age": "86400"})
_USUAL_HEADERS = "Content-Type, Prefer, X-Request-ID"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}", re.ASCII)

CALLER_KEY = web.RequestKey("caller_key", str)
"""The key of the caller's buckets, in a request whose route identifies callers."""

_NO_VALID_BEARER = "Send a valid token as «Authorization: Bearer TOKEN»."

_BODY_TIMEOUT_SECONDS = 20.0

_FORBIDDEN = 403
_LONGEST_GIST = 200


def request_log(
    row: Route,
    request_ids: RequestIds,
    connections: Connections,
    figures: RequestFigures,
    lines: RequestLines,
    observer: Observer | None,
) -> Middleware:
    """Name and count every request of the route; while the server stops, end its connection.

    The observer is called here, and has no layer of its own, which would cost more than it does.
    """
    name, count = request_ids.name, figures.of_route(row.name).count
    begin, note = (None, None) if observer is None else observer.of_route(row)
    noteworthy_seconds = lines.noteworthy_seconds

    @web.middleware
    async def request_log(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = perf_counter()
        request[REQUEST_ID] = request_id = name(request)
        wait = None if begin is None else begin(request)
        try:
            response = await handler(request)
        except asyncio.CancelledError:
            seconds = perf_counter() - started
            count(CLIENT_LEFT, seconds)
            if note is not None:
                note(request, None, CLIENT_LEFT, started, seconds, wait)
            raise
        response.headers[REQUEST_ID_HEADER] = request_id
        if connections.is_stopping:
            response.force_close()
        status = response.status
        if status == _SWITCHING_PROTOCOLS:
            await _switch(request, response)
        seconds = perf_counter() - started
        count(status, seconds)
        if seconds > noteworthy_seconds or status >= _TOO_MANY_REQUESTS:
            lines.note(request, row, status, seconds)
        if note is not None:
            note(request, response, status, started, seconds, wait)
        return response

    return request_log


async def _switch(request: web.Request, response: web.StreamResponse) -> None:
    """Leave HTTP while the handler runs: afterwards aiohttp goes on as if the upgrade was declined."""
    try:
        await response.prepare(request)
    except ConnectionError as error:
        raise asyncio.CancelledError from error


def errors(route: str) -> Middleware:
    """Answer every error of the route with a problem; only a client's departure is raised again."""

    @web.middleware
    async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if hdrs.TRANSFER_ENCODING in request.headers:
                _require_plain_chunks(request)
            return await handler(request)
        except Exception as error:
            return answer_to(error, request, route)

    return errors


def _require_plain_chunks(request: web.Request) -> None:
    """Raise InvalidInputError for a transfer coding besides chunked: aiohttp would not decode the body."""
    if request.headers[hdrs.TRANSFER_ENCODING].strip().lower() != "chunked":
        raise InvalidInputError(
            "Send the body as it is, or in chunks (Transfer-Encoding: chunked), "
            "without another transfer coding."
        )


def answer_to(error: Exception, request: web.Request, route: str) -> web.StreamResponse:
    """The problem that answers an error. Raises CancelledError when the client has left."""
    request_id = request[REQUEST_ID]
    if isinstance(error, BridgeError):
        response = problem_of_error(error, request)
        if isinstance(error, QuotaError):
            declare(error.charges, response.headers)
        if isinstance(error, LimitError):
            request[REFUSED_BY] = error.code if not isinstance(error, QuotaError) else error.limit_name
        note_refusal(request, route, response.status, error, request_id)
        return response
    if isinstance(error, web.HTTPException):
        note_refusal(request, route, error.status, code_of_http(error), request_id)
        return problem_of_http(error, request)
    if isinstance(error, ConnectionError):  # the client left while its request was read
        raise asyncio.CancelledError from error
    note_failure(request, error, request_id)
    return problem_of_bug(request)


# Cross-origin requests (the Fetch standard): dapps call the bridge from web pages of any origin, and
# inboxes are read from the web pages of configured ones. No credentials are involved.


def cors(any_origin: bool, origins: AllowedOrigins) -> Middleware | None:
    """Let web pages of other origins read the route's answers; None for a route that no page may call."""
    if any_origin:
        return _for_any_origin
    return _for_origins(origins) if origins else None


def preflight(request: web.Request, methods: Sequence[str]) -> web.StreamResponse:
    """The answer to a browser that asks whether it may send one of the methods to this path."""
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    response = web.Response(status=204, headers=_PREFLIGHT_HEADERS)
    response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
    response.headers["Access-Control-Allow-Headers"] = (
        wanted if _HEADER_NAMES.fullmatch(wanted) else _USUAL_HEADERS
    )
    return response


def share(headers: CIMultiDict[str], origin: str = "*") -> None:
    """Let web pages of the origin read the response with these headers; `*` for every origin."""
    headers["Access-Control-Allow-Origin"] = origin
    headers["Access-Control-Expose-Headers"] = _EXPOSED


@web.middleware
async def _for_any_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    if hdrs.ORIGIN in request.headers:
        share(response.headers)
    return response


def _for_origins(origins: AllowedOrigins) -> Middleware:
    @web.middleware
    async def cors(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        headers, origin = response.headers, request.headers.get(hdrs.ORIGIN)
        vary = headers.get("Vary")
        headers["Vary"] = "Origin" if vary is None else f"{vary}, Origin"
        if origin is not None and origin in origins:
            share(headers, origin)
        return response

    return cors


# Authentication: a route's guard, its bearer token (RFC 6750), its caller.


def bearer(row: Route) -> Middleware | None:
    """Keep out every request that may not call the route; None for a route without authentication."""
    guard, may_pass, identify, on_refusal = row.guard, row.bearer, row.identify, row.on_refusal
    if guard is None and may_pass is None and identify is None:
        return None

    @web.middleware
    async def bearer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if guard is not None:
                guard(request)
            if may_pass is not None:
                _require_bearer(request, may_pass)
        except BridgeError as error:
            if on_refusal is not None:
                on_refusal(request, error)
            raise
        if identify is not None:
            request[CALLER_KEY] = await _require_caller(request, identify)
        return await handler(request)

    return bearer


def note_refusals(rows: Iterable[Route], request: web.Request) -> None:
    """Report a browser's preflight whose request the guard of a row would refuse."""
    for row in rows:
        if row.guard is None or row.on_refusal is None:
            continue
        try:
            row.guard(request)
        except BridgeError as error:
            row.on_refusal(request, error)


def _require_bearer(request: web.Request, may_pass: Callable[[str], bool]) -> None:
    """Raise NotAuthenticatedError unless the request carries a token that may pass."""
    token = _token(request)
    if token is None or not may_pass(token):
        raise NotAuthenticatedError(_NO_VALID_BEARER)


async def _require_caller(request: web.Request, identify: Identify) -> str:
    """The key of the caller whose token the request carries. Raises NotAuthenticatedError."""
    token = _token(request)
    key = None if token is None else await identify(request, token)
    if key is None:
        raise NotAuthenticatedError(_NO_VALID_BEARER)
    return key


def _token(request: web.Request) -> str | None:
    values = request.headers.getall("Authorization", [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None


# Rate limits of a route: token buckets per client address, or per authenticated caller.


def rate_limits(
    row: Route, addresses: ClientAddresses, quotas: TokenBuckets, save: Callable[[], Awaitable[None]]
) -> Middleware | None:
    """Charge each request, and declare the remaining tokens on its answer; None for a route without limits.

    Errors of a charged request are answered here, since their answers declare the remaining tokens, too.
    """
    if not row.limits and not row.caller_limits:
        return None
    charge, is_kept, route = _charging(row, addresses, quotas), quotas.is_kept, row.name

    @web.middleware
    async def rate_limits(request: web.Request, handler: Handler) -> web.StreamResponse:
        charged = charge(request)
        if charged.later is not None:
            charged = await charged.later
        try:
            response = await handler(request)
        except Exception as error:
            response = answer_to(error, request, route)
        if not is_kept(charged):
            await _keep(save, response)
        declare(charged.charges, response.headers)
        return response

    return rate_limits


def _charging(
    row: Route, addresses: ClientAddresses, quotas: TokenBuckets
) -> Callable[[web.Request], Charged]:
    """Charges a request to its address's buckets or to its caller's, whichever the row limits."""
    limits, caller_limits, dry_run_limits = row.limits, row.caller_limits, row.dry_run_limits
    charge, standing, bucket_key = quotas.charge, quotas.standings, addresses.bucket_key

    def charge_address(request: web.Request) -> Charged:
        address = bucket_key(request)
        if address is None:
            return NOTHING_CHARGED
        charged = charge(address, limits)
        return Charged(charged.charges, later=charged.later)

    def charge_caller(request: web.Request) -> Charged:
        caller = request[CALLER_KEY]
        if request.method == hdrs.METH_HEAD:  # nothing is looked up, and nothing charged
            return standing(caller, caller_limits)
        if dry_run_limits and asks_for_dry_run(request):
            return charge(caller, dry_run_limits)
        return charge(caller, caller_limits)

    assert not (limits and caller_limits), f"{row.name} has limits of both kinds"
    assert row.identify or not caller_limits, f"{row.name} limits callers that it does not identify"
    return charge_caller if caller_limits else charge_address


async def _keep(save: Callable[[], Awaitable[None]], response: web.StreamResponse) -> None:
    """Wait until the charges are on disk: a restart must not give them back. The answer stands."""
    try:
        with suppress(UnavailableError):
            await save()
    except BaseException:  # the client has left
        if isinstance(response, Socket | EventStream):
            response.abandon()
        raise


# A request's body, received before the handler runs: whole, bounded in size and in time.


def body(limit_bytes: int) -> Middleware | None:
    """Receive a body of at most `limit_bytes`; None for a route that reads none."""
    if not limit_bytes:
        return None

    @web.middleware
    async def body(request: web.Request, handler: Handler) -> web.StreamResponse:
        await _receive(request, limit_bytes)
        return await handler(request)

    return body


async def _receive(request: web.Request, limit_bytes: int) -> None:
    """Read the whole body, which aiohttp keeps for `request.read()`.

    Raises TooLargeError, TooSlowError for a body that does not arrive whole in time, and InvalidInputError
    for a broken encoding.
    """
    length = request.content_length
    if length is not None and length > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        if request.content.is_eof():
            received = await request.read()
        else:
            async with asyncio.timeout(_BODY_TIMEOUT_SECONDS):
                received = await request.read()
    except TimeoutError as error:
        raise TooSlowError(f"The body did not arrive within {_BODY_TIMEOUT_SECONDS:.0f} s.") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(limit_bytes) from error
    except web.RequestPayloadError as error:
        raise InvalidInputError("The body's transfer or content encoding is broken.") from error
    if len(received) > limit_bytes:
        raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> TooLargeError:
    return TooLargeError(f"This route accepts at most {limit_bytes} bytes.")


# Faults that a test has ordered for requests; composed only in test mode.


class RequestFault(NamedTuple):
    """A fault of one request: it is delayed, and then its connection is closed or a status answered.

    Without a status and a drop it is only delayed.
    """

    delay_ms: int = 0
    drop: bool = False
    status: int | None = None
    retry_after_seconds: int | None = None


Strike: TypeAlias = Callable[[str], RequestFault | None]
"""The fault that strikes the next request of the route with this name."""


def faults(row: Route, strike: Strike | None) -> Middleware | None:
    """Have ordered faults strike the route; None outside of test mode, and for routes that only
    observe.
    """
    if strike is None or row.only_observes:
        return None
    route = row.name

    @web.middleware
    async def faults(request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = strike(route)
        if fault is None:
            return await handler(request)
        if fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1_000)
        if fault.drop:
            _drop(request)
        return (
            await handler(request) if fault.status is None else _ordered_answer(request, fault, fault.status)
        )

    return faults


def _drop(request: web.Request) -> None:
    """Close the connection without an answer. Raises ConnectionResetError, as if the client had left."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError


def _ordered_answer(request: web.Request, fault: RequestFault, status: int) -> web.Response:
    response = problem_of_ordered_fault(status, request)
    if fault.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(fault.retry_after_seconds)
    return response


# The record of every request with its contents; composed only in test mode.
#
# In production the record keeps no contents, and the outermost layer fills it (`web/recorder.py`).


def traffic(row: Route, record: TrafficLog | None) -> Middleware | None:
    """Record every request of the route; None without a record, and for routes that are left out of it."""
    if record is None or not record.keeps_contents or row.who in LEFT_OUT:
        return None

    @web.middleware
    async def traffic(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = perf_counter()
        response: web.StreamResponse | None = None
        waiting = record.begin(_beginning(row, request)) if row.waits and asks_to_wait(request) else None
        try:
            response = await handler(request)
            return response
        finally:
            exchange = await _exchange(row, request, response, perf_counter() - started, waiting is not None)
            if waiting is None:
                record.note(exchange)
            else:
                record.finish(waiting, exchange)

    return traffic


def _beginning(row: Route, request: web.Request) -> Exchange:
    return Exchange(row.who, request.method, request.path_qs, row.name, 0, 0.0)


async def _exchange(
    row: Route, request: web.Request, response: web.StreamResponse | None, seconds: float, has_waited: bool
) -> Exchange:
    status = CLIENT_LEFT if response is None else response.status
    sent, body = await _sent_body(row, request, response), _body_of(response)
    return Exchange(
        who="page" if status == _FORBIDDEN and "Origin" in request.headers else row.who,
        method=request.method,
        path=request.path_qs,
        route=row.name,
        status=status,
        milliseconds=round(seconds * 1_000, 1),
        waited_seconds=round(seconds, 3) if has_waited else 0.0,
        gist=_gist(row, status, sent, body),
        request=contents(request.headers, sent),
        answer=None if response is None else contents(response.headers, body),
        about=body if row.makes and status < FIRST_FAILURE else b"",
    )


async def _sent_body(row: Route, request: web.Request, response: web.StreamResponse | None) -> bytes:
    """The body, if it was received: a request that was refused before is not read for the record."""
    if response is None or not row.body_limit_bytes or not request.content.is_eof():
        return b""
    try:
        return await request.read()
    except Exception:  # the handler has seen it, too, and the answer says so
        return b""


def _body_of(response: web.StreamResponse | None) -> bytes:
    body = response.body if isinstance(response, web.Response) else None
    return bytes(body) if isinstance(body, bytes | bytearray) else b""


def _gist(row: Route, status: int, sent: bytes, body: bytes) -> str:
    """The first fault of a failed request; of another, the summary that its route makes."""
    try:
        if status >= FIRST_FAILURE:
            return _trouble(body)[:_LONGEST_GIST]
        return "" if row.gist is None else row.gist(sent, body)[:_LONGEST_GIST]
    except (ValueError, TypeError, KeyError, AttributeError):  # the bodies are not as the route expects them
        return ""


def _trouble(body: bytes) -> str:
    """The first fault of a problem, with its place, or its detail."""
    problem = orjson.loads(body)
    for fault in problem.get("errors", ()):
        return f"{fault['pointer']} {fault['detail']}"
    return str(problem.get("detail", problem["title"]))
