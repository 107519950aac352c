"""The origins for which sign-in messages are accepted, and the check of a message against them."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from bridge_server.ethereum.sign_in_message import SignInMessage
from bridge_server.kernel.errors import Fault
from bridge_server.kernel.fields import web_origin
from bridge_server.web.allowed_origins import is_loopback_origin

POINTER = "#/message"

_SCHEMES = ("https", "http")


def origin_of_url(url: str) -> str | None:
    """The origin of a URL in the form of browsers; None if no web page can have it."""
    try:
        parts = urlsplit(url)
        return web_origin(f"{parts.scheme}://{parts.netloc}".lower())
    except ValueError:
        return None


def loopback_origins(message: SignInMessage) -> frozenset[str]:
    """The origins of a message's domain and URI, as far as they are of pages on the server's own machine."""
    urls = (*(f"{scheme}://{message.domain}" for scheme in _SCHEMES), message.uri)
    origins = filter(None, map(origin_of_url, urls))
    return frozenset(filter(is_loopback_origin, origins))


def origin_faults(message: SignInMessage, origins: frozenset[str]) -> list[Fault]:
    """The faults of a message's domain, scheme and URI, if the server has these origins."""
    details = _domain(message, origins), _uri(message, origins)
    return [Fault(POINTER, detail) for detail in details if detail]


def _domain(message: SignInMessage, origins: frozenset[str]) -> str | None:
    named = [origin for scheme in _SCHEMES if (origin := origin_of_url(f"{scheme}://{message.domain}"))]
    allowed = [origin for origin in named if origin in origins]
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
