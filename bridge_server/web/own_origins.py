"""The origins of a server without a configured URL: the address at which a connection arrived."""

from functools import lru_cache
from typing import Any

from bridge_server.kernel.fields import web_origin
from bridge_server.kernel.ip_addresses import parse_ip_address

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@lru_cache(maxsize=1024)
def origins_of_address(host: str, port: int) -> frozenset[str]:
    """The origins of a server that is reached at this address; one on loopback has several names.

    An address is where a connection came to, not what its client calls it: a client can send any Host.
    """
    address = parse_ip_address(host)
    names = _LOOPBACK_NAMES if address.is_loopback else ()
    literal = f"[{address}]" if address.version == 6 else str(address)
    return frozenset(web_origin(f"http://{name}:{port}") for name in (literal, *names))


def origins_of_socket(name: Any) -> frozenset[str]:
    """The origins of a server by its socket's own address; none for a socket that has no address."""
    return origins_of_address(name[0], name[1]) if isinstance(name, tuple) else frozenset()
