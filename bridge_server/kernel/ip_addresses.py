"""IP addresses as text: one reading of them, and the names of the machine itself."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address


def parse_ip_address(text: str) -> IpAddress:
    """The address without its zone; an IPv4 address mapped to IPv6 as IPv4. Raises ValueError."""
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


@lru_cache(maxsize=1_024)
def is_loopback_address(text: str) -> bool:
    """Whether this is an address that leads to the machine itself."""
    try:
        return parse_ip_address(text).is_loopback
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether this host is the machine itself: `localhost` or an address, which may stand in brackets."""
    return host.lower() == "localhost" or is_loopback_address(host.strip("[]"))
