"""The cookie of a session.

Browsers send cookies to every port of a host: without TLS the name has the port, so that two servers on one
machine do not take each other's.
"""

from aiohttp import web
from yarl import URL

from bridge_server.console.access import SESSION_MS
from bridge_server.console.models import ROOT
from bridge_server.web.hosts import host_of

_SECURE_NAME = "__Host-bridge-console"


class SessionCookies:
    """Reads and writes the cookie. `public_url` says under which host browsers come over TLS."""

    def __init__(self, public_url: str | None) -> None:
        url = URL(public_url or "")
        self._secure_host = url.host if url.scheme == "https" else None

    def token(self, request: web.Request) -> str:
        """The token that the request carries; empty without one."""
        return request.cookies.get(self._name(request), "")

    def keep(self, request: web.Request, token: str) -> str:
        """The header field that has the browser keep the token."""
        return self._spell(request, token, SESSION_MS // 1000)

    def forget(self, request: web.Request) -> str:
        """The header field that has the browser forget the token."""
        return self._spell(request, "", 0)

    def is_secure(self, request: web.Request) -> bool:
        """Whether the browser came over TLS, which a proxy ends."""
        host = URL(f"//{host_of(request)}").host if self._secure_host else None
        return host is not None and host == self._secure_host

    def _name(self, request: web.Request) -> str:
        if self.is_secure(request):
            return _SECURE_NAME
        _, _, port = host_of(request).rpartition(":")
        return f"bridge-console-{port}" if port.isascii() and port.isdigit() else "bridge-console"

    def _spell(self, request: web.Request, token: str, seconds: int) -> str:
        path = "; Path=/; Secure" if self.is_secure(request) else f"; Path={ROOT}"
        name = self._name(request)
        return f"{name}={token}{path}; HttpOnly; SameSite=Strict; Max-Age={seconds}"
