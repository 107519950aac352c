"""Cross-origin requests (the Fetch standard): dapps call the bridge from web pages of any origin, and
inboxes are read from the web pages of configured ones.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from aiohttp import web
from multidict import CIMultiDict

from bridge_server.web.allowed_origins import AllowedOrigins
from bridge_server.web.answers import ready_made

Share: TypeAlias = Callable[[web.Request, CIMultiDict[str]], None]
"""Adds to a response's headers what lets the page that asked read it. No credentials are involved."""

_EXPOSED = "Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"
_HEADERS = ready_made({"Access-Control-Max-Age": "86400"})
_USUAL_HEADERS = "Content-Type, Prefer, X-Request-ID"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}", re.ASCII)


def sharing(any_origin: bool, origins: AllowedOrigins) -> Share:
    """How a route's responses are opened to web pages of other origins."""
    if any_origin:
        return _share_with_any
    return partial(_share_with, origins) if origins else _share_with_none


def preflight(request: web.Request, methods: Sequence[str]) -> web.StreamResponse:
    """The answer to a browser that asks whether it may send one of the methods to this path."""
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    response = web.Response(status=204, headers=_HEADERS)
    response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
    response.headers["Access-Control-Allow-Headers"] = (
        wanted if _HEADER_NAMES.fullmatch(wanted) else _USUAL_HEADERS
    )
    return response


def _share_with_none(_: web.Request, __: CIMultiDict[str]) -> None:
    pass


def _share_with_any(request: web.Request, headers: CIMultiDict[str]) -> None:
    if "Origin" in request.headers:
        headers["Access-Control-Allow-Origin"] = "*"
        headers["Access-Control-Expose-Headers"] = _EXPOSED


def _share_with(origins: AllowedOrigins, request: web.Request, headers: CIMultiDict[str]) -> None:
    vary = headers.get("Vary")
    headers["Vary"] = "Origin" if vary is None else f"{vary}, Origin"
    origin = request.headers.get("Origin")
    if origin is not None and origin in origins:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Expose-Headers"] = _EXPOSED
