"""The address guard: outgoing requests may connect to public unicast addresses and to ports of web servers.

The URL of a webhook is untrusted, and must not lead into the server's own network (server-side request
forgery). The guard checks the address at the moment of the connection, for names, literals and redirects
alike. The table is explicit, because `ipaddress.is_global` allows translation prefixes and differs
between Python versions. Source: the IANA special-purpose address registries.
"""

import errno
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from aiohttp import AddrInfoType

Rule: TypeAlias = Callable[[str, int], str | None]
"""Returns the reason why an address and port are refused; None if they are allowed."""

REFUSED_IPV4 = {
    IPv4Network("0.0.0.0/8"): "this host",
    IPv4Network("10.0.0.0/8"): "private",
    IPv4Network("100.64.0.0/10"): "carrier-grade NAT",
    IPv4Network("127.0.0.0/8"): "loopback",
    IPv4Network("168.63.129.16/32"): "a cloud's host agent",
    IPv4Network("169.254.0.0/16"): "link-local",
    IPv4Network("172.16.0.0/12"): "private",
    IPv4Network("192.0.0.0/24"): "reserved for protocols",
    IPv4Network("192.0.2.0/24"): "documentation",
    IPv4Network("192.88.99.0/24"): "6to4 relay",
    IPv4Network("192.168.0.0/16"): "private",
    IPv4Network("198.18.0.0/15"): "benchmarking",
    IPv4Network("198.51.100.0/24"): "documentation",
    IPv4Network("203.0.113.0/24"): "documentation",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved",
}

GLOBAL_UNICAST_IPV6 = IPv6Network("2000::/3")
"""The range that IANA assigns as global unicast. Addresses outside of it are refused as well."""

REFUSED_IPV6 = {
    IPv6Network("::/128"): "unspecified",
    IPv6Network("::1/128"): "loopback",
    IPv6Network("::ffff:0:0/96"): "IPv4-mapped",
    IPv6Network("::/96"): "IPv4-compatible",
    IPv6Network("64:ff9b::/96"): "NAT64",
    IPv6Network("64:ff9b:1::/48"): "NAT64",
    IPv6Network("100::/64"): "discard-only",
    IPv6Network("2001::/32"): "Teredo",
    IPv6Network("2001::/23"): "reserved for protocols",
    IPv6Network("2001:db8::/32"): "documentation",
    IPv6Network("2002::/16"): "6to4",
    IPv6Network("3ffe::/16"): "returned by a closed experiment",
    IPv6Network("3fff::/20"): "documentation",
    IPv6Network("5f00::/16"): "segment routing",
    IPv6Network("fc00::/7"): "unique local",
    IPv6Network("fe80::/10"): "link-local",
    IPv6Network("fec0::/10"): "site-local",
    IPv6Network("ff00::/8"): "multicast",
}

_WEB_PORTS = frozenset({80, 443})
_FIRST_UNPRIVILEGED_PORT = 1_024


class AddressRefusedError(OSError):
    """The guard refuses the address or port. The text names the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EACCES, reason)
        self.reason = reason


def public_only(address: str, port: int) -> str | None:
    """The rule that allows public addresses only. `address` is numeric; a malformed one is refused."""
    if port not in _WEB_PORTS and port < _FIRST_UNPRIVILEGED_PORT:
        return f"port {port} is not allowed"
    try:
        parsed = ip_address(address)
    except ValueError:
        return "the address cannot be read"
    kind = _refused_ipv4(parsed) if isinstance(parsed, IPv4Address) else _refused_ipv6(parsed)
    return None if kind is None else f"the address {parsed} is not public ({kind})"


def anywhere(address: str, port: int) -> str | None:
    """The rule for development, which allows every address."""
    return None


def guarded_sockets(rule: Rule) -> Callable[[AddrInfoType], socket.socket]:
    """A socket factory for aiohttp's connector that raises AddressRefusedError for refused addresses.

    The connector calls it immediately before every connect, for IP literals and for resolved names, with the
    address that it will connect to.
    """

    def make(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        reason = rule(str(address[0]), int(address[1]))
        if reason is not None:
            raise AddressRefusedError(reason)
        return socket.socket(family, kind, protocol)

    return make


def _refused_ipv4(address: IPv4Address) -> str | None:
    return next((kind for network, kind in REFUSED_IPV4.items() if address in network), None)


def _refused_ipv6(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return "scoped"
    kind = next((kind for network, kind in REFUSED_IPV6.items() if address in network), None)
    if kind is None and address not in GLOBAL_UNICAST_IPV6:
        return "not global unicast"
    return kind
