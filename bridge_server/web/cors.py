"""Cross-origin requests (the Fetch standard): dapps call the bridge from web pages of any origin."""

import re
from collections.abc import Sequence

from aiohttp import web
from multidict import CIMultiDict

from bridge_server.web.answers import ready_made

_EXPOSED = "Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"
_HEADERS = ready_made({"Access-Control-Max-Age": "86400"})
_USUAL_HEADERS = "Content-Type, Prefer, X-Request-ID"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}", re.ASCII)


def open_to_any_origin(headers: CIMultiDict[str]) -> None:
    """Let a page of any origin read the response. No credentials are involved."""
    headers["Access-Control-Allow-Origin"] = "*"
    headers["Access-Control-Expose-Headers"] = _EXPOSED


def preflight(request: web.Request, methods: Sequence[str]) -> web.StreamResponse:
    """The answer to a browser that asks whether it may send one of the methods to this path."""
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    response = web.Response(status=204, headers=_HEADERS)
    response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
    response.headers["Access-Control-Allow-Headers"] = (
        wanted if _HEADER_NAMES.fullmatch(wanted) else _USUAL_HEADERS
    )
    return response
