"""Cross-origin requests (the Fetch standard): dapps call the bridge from web pages of any origin."""

import re
from collections.abc import Sequence

from aiohttp import web

_EXPOSED = "Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"
_PREFLIGHT_SECONDS = "86400"
_USUAL_HEADERS = "Content-Type, Prefer, X-Request-ID"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}", re.ASCII)


def open_to_any_origin(response: web.StreamResponse) -> None:
    """Let a page of any origin read the response. No credentials are involved."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Expose-Headers"] = _EXPOSED


def preflight(request: web.Request, methods: Sequence[str]) -> web.StreamResponse:
    """The answer to a browser that asks whether it may send one of the methods to this path."""
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    response = web.Response(status=204)
    response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
    response.headers["Access-Control-Allow-Headers"] = (
        wanted if _HEADER_NAMES.fullmatch(wanted) else _USUAL_HEADERS
    )
    response.headers["Access-Control-Max-Age"] = _PREFLIGHT_SECONDS
    return response
