"""Authentication: a route's guard, its bearer token (RFC 6750), its caller."""

from collections.abc import Callable, Iterable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.kernel.errors import BridgeError, NotAuthenticatedError
from bridge_server.web.routes import Identify, Route

CALLER_KEY = web.RequestKey("caller_key", str)
"""The key of the caller's buckets, in a request whose route identifies callers."""

_DETAIL = "Send a valid token as «Authorization: Bearer TOKEN»."


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
        raise NotAuthenticatedError(_DETAIL)


async def _require_caller(request: web.Request, identify: Identify) -> str:
    """The key of the caller whose token the request carries. Raises NotAuthenticatedError."""
    token = _token(request)
    key = None if token is None else await identify(request, token)
    if key is None:
        raise NotAuthenticatedError(_DETAIL)
    return key


def _token(request: web.Request) -> str | None:
    values = request.headers.getall("Authorization", [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None
