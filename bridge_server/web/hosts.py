"""The host that a request names. By DNS rebinding a web page's own host name can lead to this machine."""

import re
from collections.abc import Iterable
from functools import lru_cache

from aiohttp import web

from bridge_server.kernel.ip_addresses import is_loopback, parse_ip_address

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]+))(?::[0-9]*)?", re.IGNORECASE)


class Hosts:
    """The hosts that a request may name: this machine, the address it came to, and `names` without ports."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.strip("[]").lower() for name in names if name)
        self._is_known_host = lru_cache(maxsize=1_024)(self._is_known)

    def admit(self, request: web.Request) -> bool:
        """Whether the request names one of them."""
        host = host_of(request)
        return self._is_known_host(host) or _is_own_address(request, host)

    def _is_known(self, host: str) -> bool:
        name = _name_of(host)
        return is_loopback(name) or name in self._names


def host_of(request: web.Request) -> str:
    """The Host field as it was sent; all of them if there are several, which is no host."""
    return ",".join(request.headers.getall("Host", ()))


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
