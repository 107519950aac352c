"""The URL of a listening server: for programs on the same machine, and for other machines."""

import socket
from contextlib import suppress
from urllib.parse import urlsplit

from bridge_server.kernel.ip_addresses import is_loopback_address

_LOOPBACK_OF_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound to it here
_DOCUMENTATION_ADDRESS = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses that belong to no machine: the route to them starts at the address that other machines see."""
_ANY_PORT = 9


def local_url(host: str, port: int) -> str:
    """The URL for programs on this machine of a server that listens on `host`: loopback for a wildcard."""
    reachable = _LOOPBACK_OF_WILDCARD.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def url_for_others(url: str, host: str) -> str:
    """The URL for other machines of a server with the local URL `url` that listens on `host`."""
    if host not in _LOOPBACK_OF_WILDCARD:
        return url
    families = (socket.AF_INET6, socket.AF_INET) if ":" in host else (socket.AF_INET,)
    addresses = filter(None, map(_outgoing_address, families))
    return local_url(next(addresses, socket.gethostname()), urlsplit(url).port or 0)


def lan_address() -> str | None:
    """The address at which other machines in the network reach this one; None without a network."""
    addresses = filter(None, map(_outgoing_address, (socket.AF_INET, socket.AF_INET6)))
    return next((address for address in addresses if not is_loopback_address(address)), None)


def _outgoing_address(family: socket.AddressFamily) -> str | None:
    """The source address of this machine's packets; None without a route. No packet is sent."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_DOCUMENTATION_ADDRESS[family], _ANY_PORT))
        return str(probe.getsockname()[0])
    return None
