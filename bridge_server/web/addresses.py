"""Addresses: the client's, the host that a request names, and the server's own origins."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import Any, TypeAlias

import structlog
from aiohttp import hdrs, web
from multidict import istr

from bridge_server.kernel.errors import ForbiddenError
from bridge_server.kernel.fields import IpAddress, is_loopback, parse_ip_address, web_origin
from bridge_server.web.aiohttp_internals import has_known_requests, peer_key_of

UNKNOWN = "unknown"
"""The key of a client whose address a trusted proxy does not name."""

_FORWARDED_FOR = istr("X-Forwarded-For")
_IPV6_CUSTOMER_BITS = 64
_WITH_PORT = re.compile(r"\[([^\[\]]+)\](?::[0-9]{1,5})?|([^:]+):[0-9]{1,5}", re.ASCII)
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]+))(?::[0-9]*)?", re.IGNORECASE)
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

log = structlog.get_logger()

Network: TypeAlias = IPv4Network | IPv6Network


class ClientAddresses:
    """Finds the address of a request's client, and the key under which its requests are counted."""

    def __init__(self, trusted_proxies: tuple[Network, ...], exempt: tuple[Network, ...]) -> None:
        self._trusted_proxies = trusted_proxies
        self._exempt = exempt
        self._mentioned = False
        self._peers_tell = has_known_requests() and not trusted_proxies
        """Whether all requests of a connection have its key."""
        self.key_of = lru_cache(maxsize=65_536)(self._make_bucket_key)
        """The key under which an address is counted, or None when it is exempt."""
        self.trusts = lru_cache(maxsize=1_024)(self._in_trusted_proxies)
        """Whether a peer is a proxy that is believed."""

    @property
    def have_proxies(self) -> bool:
        """Whether clients come through proxies, so that the peer is not the client."""
        return bool(self._trusted_proxies)

    def bucket_key(self, request: web.Request) -> str | None:
        """The key of the client's buckets, None if it is exempt; IPv6 clients count by their /64."""
        if self._peers_tell:
            try:
                key = peer_key_of(request)
            except AttributeError:  # a connection that is not guarded
                key = None
            if key is not None:
                return key
        key = self.key_of(self.client(request))
        if key is None and not self._mentioned and _FORWARDED_FOR in request.headers:
            self._mention_proxy(request.remote or "")
        return key

    def client(self, request: web.Request) -> str:
        """The peer's address; behind trusted proxies, the last hop of X-Forwarded-For that is not one. A last
        hop that is not an address counts as unknown: no exemption applies to it.
        """
        peer = request.remote or ""
        if not self._trusted_proxies or not self.trusts(peer):
            return peer
        hops = ",".join(request.headers.getall(_FORWARDED_FOR, (peer,))).split(",")
        for hop in reversed(hops):
            address = _without_port(hop.strip())
            if not self.trusts(address):
                return address if _parse(address) else UNKNOWN
        return peer

    def counted(self, request: web.Request) -> str:
        """The key of the client's buckets, or its address when it is exempt from them."""
        address = self.client(request)
        return self.key_of(address) or address

    def _mention_proxy(self, peer: str) -> None:
        if self.trusts(peer):
            return
        self._mentioned = True
        log.warning(
            "proxy_not_trusted",
            peer=peer,
            advice="no quota applies to requests through it: name the proxy in trusted_proxies",
        )

    def _in_trusted_proxies(self, text: str) -> bool:
        address = _parse(text)
        return address is not None and any(address in network for network in self._trusted_proxies)

    def _make_bucket_key(self, text: str) -> str | None:
        address = _parse(text)
        if address is None:
            return text
        if any(address in network for network in self._exempt):
            return None
        if isinstance(address, IPv6Address):
            return str(IPv6Network((int(address), _IPV6_CUSTOMER_BITS), strict=False))
        return str(address)


def _without_port(hop: str) -> str:
    """The hop without its port, which some proxies add: `192.0.2.1:5678`, `[2001:db8::1]:80`."""
    found = _WITH_PORT.fullmatch(hop)
    return hop if found is None else found[1] or found[2]


def _parse(text: str) -> IpAddress | None:
    try:
        return parse_ip_address(text)
    except ValueError:
        return None


class Hosts:
    """The hosts that a request may name, against DNS rebinding: this machine, its address, and `names`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.strip("[]").lower() for name in names if name)
        self._is_known_host = lru_cache(maxsize=1_024)(self._is_known)

    def admit(self, request: web.Request) -> bool:
        """Whether the request names one of them."""
        host = host_of(request)
        return self._is_known_host(host) or _is_own_address(request, host)

    def guard(self, refusal: str, remedy: str) -> Callable[[web.Request], None]:
        """A guard that raises ForbiddenError for requests to other hosts."""

        def check(request: web.Request) -> None:
            if not self.admit(request):
                raise ForbiddenError(f"{refusal} the host {host_of(request)[:255]!r}: {remedy}")

        return check

    def _is_known(self, host: str) -> bool:
        name = _name_of(host)
        return is_loopback(name) or name in self._names


def host_of(request: web.Request) -> str:
    """The Host field as it was sent; all of them if there are several, which is no host."""
    return ",".join(request.headers.getall(hdrs.HOST, ()))


def _name_of(host: str) -> str:
    """The name or address in a Host field, without the port; empty when the field is malformed."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().removesuffix(".") if found else ""


def _is_own_address(request: web.Request, host: str) -> bool:
    own = request.transport.get_extra_info("sockname") if request.transport is not None else None
    try:
        return isinstance(own, tuple) and parse_ip_address(_name_of(host)) == parse_ip_address(own[0])
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def origins_of_address(host: str, port: int) -> frozenset[str]:
    """The origins of a server without a configured URL, by the address at which a connection arrived. A
    server on loopback has several names. An address is where a connection came to, not what its client calls
    it: a client can send any Host.
    """
    address = parse_ip_address(host)
    names = _LOOPBACK_NAMES if address.is_loopback else ()
    literal = f"[{address}]" if address.version == 6 else str(address)
    return frozenset(web_origin(f"http://{name}:{port}") for name in (literal, *names))


def origins_of_socket(name: Any) -> frozenset[str]:
    """The origins of a server by its socket's own address; none for a socket that has no address."""
    return origins_of_address(name[0], name[1]) if isinstance(name, tuple) else frozenset()
