"""Bearer tokens (RFC 6750)."""

import hmac
from collections.abc import Callable
from hashlib import sha256

from aiohttp import web

from bridge_server.kernel.errors import NotAuthenticatedError

_DETAIL = "Send a valid token as «Authorization: Bearer TOKEN»."


def require_bearer(request: web.Request, may_pass: Callable[[str], bool]) -> None:
    """Raise NotAuthenticatedError unless the request carries a token that may pass."""
    values = request.headers.getall("Authorization", [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not may_pass(token.strip()):
        raise NotAuthenticatedError(_DETAIL)


def one_token(expected: str) -> Callable[[str], bool]:
    """Passes exactly one token, compared in constant time."""
    digest = sha256(expected.encode()).digest()

    def may_pass(token: str) -> bool:
        sent = sha256(token.encode(errors="surrogateescape")).digest()
        return hmac.compare_digest(sent, digest)

    return may_pass
