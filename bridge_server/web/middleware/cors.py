"""Cross-origin requests (the Fetch standard): dapps call the bridge from web pages of any origin, and
inboxes are read from the web pages of configured ones. No credentials are involved.
"""

import re
from collections.abc import Sequence

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict

from bridge_server.web.allowed_origins import AllowedOrigins
from bridge_server.web.answers import ready_made

_EXPOSED = "Link, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"
_HEADERS = ready_made({"Access-Control-Max-Age": "86400"})
_USUAL_HEADERS = "Content-Type, Prefer, X-Request-ID"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}", re.ASCII)


def cors(any_origin: bool, origins: AllowedOrigins) -> Middleware | None:
    """Let web pages of other origins read the route's answers; None for a route that no page may call."""
    if any_origin:
        return _for_any_origin
    return _for_origins(origins) if origins else None


def preflight(request: web.Request, methods: Sequence[str]) -> web.StreamResponse:
    """The answer to a browser that asks whether it may send one of the methods to this path."""
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    response = web.Response(status=204, headers=_HEADERS)
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
