"""The client's address: the peer's address, or the address that a trusted proxy reports."""

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

import structlog
from aiohttp import web
from multidict import istr

from bridge_server.kernel.ip_addresses import IpAddress, parse_ip_address

Network: TypeAlias = IPv4Network | IPv6Network

UNKNOWN = "unknown"
"""The key of a client whose address a trusted proxy does not name."""

_FORWARDED_FOR = istr("X-Forwarded-For")
_IPV6_CUSTOMER_BITS = 64
_WITH_PORT = re.compile(r"\[([^\[\]]+)\](?::[0-9]{1,5})?|([^:]+):[0-9]{1,5}", re.ASCII)

log = structlog.get_logger()


class ClientAddresses:
    """Finds the address that a request is counted under."""

    def __init__(self, trusted_proxies: tuple[Network, ...], exempt: tuple[Network, ...]) -> None:
        self._trusted_proxies = trusted_proxies
        self._exempt = exempt
        self._mentioned = False
        self._bucket_key = lru_cache(maxsize=65_536)(self._make_bucket_key)
        self._is_trusted = lru_cache(maxsize=1_024)(self._in_trusted_proxies)

    @property
    def have_proxies(self) -> bool:
        """Whether proxies name clients, so that a connection does not tell whose it is."""
        return bool(self._trusted_proxies)

    def bucket_key(self, request: web.Request) -> str | None:
        """The key of the client's buckets, or None when the client is exempt from them.

        IPv6 clients count by their /64, the least that one customer is given.
        """
        key = self._bucket_key(self.client(request))
        if key is None and not self._mentioned and _FORWARDED_FOR in request.headers:
            self._mention_proxy(request.remote or "")
        return key

    def client(self, request: web.Request) -> str:
        """The peer's address; behind trusted proxies, the last hop of X-Forwarded-For that is not one.

        A last hop that is not an address counts as unknown: no exemption applies to it.
        """
        peer = request.remote or ""
        if not self._trusted_proxies or not self._is_trusted(peer):
            return peer
        hops = ",".join(request.headers.getall(_FORWARDED_FOR, (peer,))).split(",")
        for hop in reversed(hops):
            address = _without_port(hop.strip())
            if not self._is_trusted(address):
                return address if _parse(address) else UNKNOWN
        return peer

    def counted(self, request: web.Request) -> str:
        """The key of the client's buckets, or its address when it is exempt from them."""
        address = self.client(request)
        return self._bucket_key(address) or address

    def key_of(self, address: str) -> str | None:
        """The key under which an address is counted, or None when it is exempt."""
        return self._bucket_key(address)

    def trusts(self, peer: str) -> bool:
        """Whether the peer is a proxy that is believed."""
        return self._is_trusted(peer)

    def _mention_proxy(self, peer: str) -> None:
        if self._is_trusted(peer):
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
    """Some proxies add the port, as in `192.0.2.1:5678` and `[2001:db8::1]:80`."""
    found = _WITH_PORT.fullmatch(hop)
    return hop if found is None else found[1] or found[2]


def _parse(text: str) -> IpAddress | None:
    try:
        return parse_ip_address(text)
    except ValueError:
        return None
