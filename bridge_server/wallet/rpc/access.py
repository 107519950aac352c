"""Access to the wallet, decided by the head of a request.

A web page can have its visitor's browser send requests anywhere. Requests with an Origin must come from an
allowed page. A page whose own host name leads to this machine (DNS rebinding) is recognised by that name, in
Host. A request without a token must come from this machine.
"""

from collections.abc import Iterable
from functools import lru_cache

from aiohttp import web

from bridge_server.kernel.errors import ForbiddenError
from bridge_server.kernel.ip_addresses import is_loopback_address
from bridge_server.web.allowed_origins import AllowedOrigins
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.hosts import Hosts, host_of

# Only proxies add these headers.
_FORWARDING_HEADERS = frozenset(("forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip"))
_FORWARDING_PREFIX = "x-forwarded-"
REFUSED_PAGES = "Web pages of"
"""The beginning of the refusal of a web page by its origin."""

_HEADERS_OF_CLIENTS = ("X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP")


class Access:
    """Checks a request before its body is read. `hosts` are names or addresses, without ports."""

    def __init__(
        self,
        addresses: ClientAddresses,
        hosts: Iterable[str],
        origins: AllowedOrigins,
        *,
        has_token: bool,
    ) -> None:
        self._addresses = addresses
        self._hosts = Hosts(hosts)
        self._origins = origins
        self._has_token = has_token

    def check(self, request: web.Request) -> None:
        """Raise ForbiddenError for a request that must not reach any method of the wallet."""
        headers = request.headers
        if not self._hosts.admit(request):
            raise ForbiddenError(
                f"The wallet does not answer to the host {host_of(request)[:255]!r}: reach it as localhost "
                "or by its address, or name the host in rpc_hosts."
            )
        origin = headers.get("Origin")
        if origin is not None and origin not in self._origins:
            raise ForbiddenError(
                f"{REFUSED_PAGES} {origin[:255]!r} may not call the wallet: rpc_origins must name the origin "
                "if they shall."
            )
        if not self._has_token and not self._is_local(request):
            raise ForbiddenError(
                "Without a token the wallet answers only callers on its own machine: set rpc_token, and send "
                "it as «Authorization: Bearer TOKEN»."
            )

    def _is_local(self, request: web.Request) -> bool:
        """Whether the client is on this machine, not only the proxy that forwards for it."""
        peer = request.remote or ""
        if not is_loopback_address(peer):
            return False
        headers = request.headers
        if not any(map(_is_forwarding, headers)):
            return True
        hops = ",".join(hop for name in _HEADERS_OF_CLIENTS for hop in headers.getall(name, ())).split(",")
        return (
            self._addresses.trusts(peer)
            and "X-Forwarded-For" in headers
            and "Forwarded" not in headers
            and all(is_loopback_address(hop.strip()) for hop in hops)
        )


@lru_cache(maxsize=1_024)
def _is_forwarding(header: str) -> bool:
    """Whether only proxies send a header of this name."""
    name = header.lower()
    return name in _FORWARDING_HEADERS or name.startswith(_FORWARDING_PREFIX)
