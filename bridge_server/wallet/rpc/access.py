"""Access to the wallet, decided by the head of a request.

A web page can have its visitor's browser send requests anywhere. Requests with an Origin must come from an
allowed page. A page whose own host name leads to this machine (DNS rebinding) is recognised by that name, in
Host. A request without a token must come from this machine.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from aiohttp import web

from bridge_server.kernel.errors import ForbiddenError
from bridge_server.kernel.ip_addresses import is_loopback, is_loopback_address, parse_ip_address
from bridge_server.web.allowed_origins import AllowedOrigins
from bridge_server.web.client_address import ClientAddresses

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]+))(?::[0-9]*)?", re.IGNORECASE)

# Only proxies add these headers.
_FORWARDING_HEADERS = frozenset(("forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip"))
_FORWARDING_PREFIX = "x-forwarded-"
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
        self._hosts = frozenset(host.strip("[]").lower() for host in hosts if host)
        self._origins = origins
        self._has_token = has_token
        self._is_known_host = lru_cache(maxsize=1_024)(self._is_known)

    def check(self, request: web.Request) -> None:
        """Raise ForbiddenError for a request that must not reach any method of the wallet."""
        headers = request.headers
        host = ",".join(headers.getall("Host", ()))
        if not self._is_known_host(host) and not _is_own_address(request, host):
            raise ForbiddenError(
                f"The wallet does not answer to the host {host[:255]!r}: reach it as localhost or by its "
                "address, or name the host in rpc_hosts."
            )
        origin = headers.get("Origin")
        if origin is not None and origin not in self._origins:
            raise ForbiddenError(
                f"Web pages of {origin[:255]!r} may not call the wallet: rpc_origins must name the origin if "
                "they shall."
            )
        if not self._has_token and not self._is_local(request):
            raise ForbiddenError(
                "Without a token the wallet answers only callers on its own machine: set rpc_token, and send "
                "it as «Authorization: Bearer TOKEN»."
            )

    def _is_known(self, host: str) -> bool:
        name = _name_of(host)
        return is_loopback(name) or name in self._hosts

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


def _name_of(host: str) -> str:
    """The name or address in a Host field, without the port; empty when the field is malformed."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().removesuffix(".") if found else ""


def _is_own_address(request: web.Request, host: str) -> bool:
    """Whether the host is the address that the connection came to."""
    own = request.transport.get_extra_info("sockname") if request.transport is not None else None
    try:
        return isinstance(own, tuple) and parse_ip_address(_name_of(host)) == parse_ip_address(own[0])
    except ValueError:
        return False
