"""Whose messages may sign in here: the origins of the pages that speak for this server."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from bridge_server.ethereum.sign_in_message import SignInMessage
from bridge_server.kernel.errors import Fault
from bridge_server.kernel.fields import web_origin

POINTER = "#/message"

_SCHEMES = ("https", "http")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@lru_cache(maxsize=1024)
def origins_of_address(host: str, port: int) -> frozenset[str]:
    """The origins of a server that is reached at this address; one on loopback has several names.

    An address is where a connection came to, not what its client calls it: a client can send any Host.
    """
    address = ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    names = _LOOPBACK_NAMES if address.is_loopback else ()
    literal = f"[{address}]" if address.version == 6 else str(address)
    return frozenset(web_origin(f"http://{name}:{port}") for name in (literal, *names))


def origins_of_socket(name: Any) -> frozenset[str]:
    """The same for what a socket says of itself; none for a socket that has no address."""
    return origins_of_address(name[0], name[1]) if isinstance(name, tuple) else frozenset()


def origin_of_url(url: str) -> str | None:
    """The origin of a URL, as browsers spell it; None for what has none that a web page could have."""
    try:
        parts = urlsplit(url)
        return web_origin(f"{parts.scheme}://{parts.netloc}".lower())
    except ValueError:
        return None


def origin_faults(message: SignInMessage, origins: frozenset[str]) -> list[Fault]:
    """What is wrong with a message's domain, scheme and URI, when these origins may ask for it."""
    details = _domain(message, origins), _uri(message, origins)
    return [Fault(POINTER, detail) for detail in details if detail]


def _domain(message: SignInMessage, origins: frozenset[str]) -> str | None:
    meant = [origin for scheme in _SCHEMES if (origin := origin_of_url(f"{scheme}://{message.domain}"))]
    allowed = [origin for origin in meant if origin in origins]
    if not allowed:
        known = _listed(origin.partition("://")[2] for origin in origins)
        return f"the domain must be one that speaks for this server ({known}), and is {message.domain}"
    if message.scheme is not None and origin_of_url(f"{message.scheme}://{message.domain}") not in allowed:
        return f"the scheme before the domain must be that of {_listed(allowed)}, and is {message.scheme}"
    return None


def _uri(message: SignInMessage, origins: frozenset[str]) -> str | None:
    if origin_of_url(message.uri) in origins:
        return None
    return f"the URI must begin with an origin that speaks for this server: {_listed(origins)}"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(texts))) or "none: set public_url or inbox_origins"
