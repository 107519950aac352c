"""Bearer tokens (RFC 6750)."""

from collections.abc import Callable

from aiohttp import web

from bridge_server.kernel.errors import NotAuthenticatedError
from bridge_server.web.routes import Identify

_DETAIL = "Send a valid token as «Authorization: Bearer TOKEN»."


def require_bearer(request: web.Request, may_pass: Callable[[str], bool]) -> None:
    """Raise NotAuthenticatedError unless the request carries a token that may pass."""
    token = _token(request)
    if token is None or not may_pass(token):
        raise NotAuthenticatedError(_DETAIL)


async def require_caller(request: web.Request, identify: Identify) -> str:
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
