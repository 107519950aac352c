"""Rules for values from outside: URLs, origins, parts of URIs (RFC 3986), addresses, Retry-After, words."""

import re
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias
from urllib.parse import urlsplit

URL_MAX_CHARACTERS = 2048
PUSH_TYPE_MAX_CHARACTERS = 64
PUSH_TOKEN_MAX_CHARACTERS = 4096

# The characters of a URI (RFC 3986). With other characters, parsers disagree about where its host ends.
_URL_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*", re.ASCII)

_NO_ORIGIN = "must be an origin and nothing more, such as https://app.example.org"
_SCHEME_NAME = r"[A-Za-z][A-Za-z0-9+.\-]*+"
_SCHEME = re.compile(_SCHEME_NAME)
_WHOLE_SECONDS = re.compile(r"[0-9]{1,15}")


def http_url(text: str) -> str:
    """Return an absolute http(s) URL with a host; raise ValueError otherwise. No address is judged here."""
    if len(text) > URL_MAX_CHARACTERS:
        raise ValueError(f"must have at most {URL_MAX_CHARACTERS} characters")
    if not _URL_CHARACTERS.fullmatch(text):
        raise ValueError(
            "must be a URL of ASCII letters, digits and -._~:/?#[]@!$&'()*+,;=%: percent-encode others"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an absolute http or https URL, such as https://example.org/hook")
    if port == 0:
        raise ValueError("names port 0, which nothing can listen on")
    return text


def web_origin(text: str) -> str:
    """Return an origin as browsers spell it, without the scheme's own port. Raises ValueError otherwise."""
    try:
        parts = urlsplit(http_url(text))
    except ValueError as error:
        raise ValueError(_NO_ORIGIN) from error
    host = parts.hostname or ""
    usual_port = {"http": 80, "https": 443}[parts.scheme]
    authority = f"[{host}]" if ":" in host else host
    if parts.port is not None and parts.port != usual_port:
        authority += f":{parts.port}"
    origin = f"{parts.scheme}://{authority}"
    if text.lower().rstrip("/") not in (origin, f"{origin}:{usual_port}"):
        raise ValueError(_NO_ORIGIN)
    return origin


def origin_of_url(url: str) -> str | None:
    """The origin of a URL in the form of browsers; None if no web page can have it."""
    try:
        parts = urlsplit(url)
        return web_origin(f"{parts.scheme}://{parts.netloc}".lower())
    except ValueError:
        return None


# The grammar of URIs (RFC 3986, appendix A), as yes-or-no questions.
#
# Every repetition is possessive, so that no text takes longer than its length.

_PLAIN = r"A-Za-z0-9\-._~!$&'()*+,;="  # unreserved and sub-delims


def _run(characters: str) -> str:
    return rf"(?:[{characters}]++|%[0-9A-Fa-f]{{2}})*+"


_SEGMENT_TEXT = _run(_PLAIN + ":@")
_PATH = _run(_PLAIN + ":@/")
_QUERY = _run(_PLAIN + ":@/?")
_LITERAL = rf"\[(?:(?P<ipv6>[0-9A-Fa-f:.]++)|[vV][0-9A-Fa-f]++\.[{_PLAIN}:]++)\]"
_USER = rf"{_run(_PLAIN + ':')}@"

# An IPv4 address is spelled like any registered name.
_HOST_AND_PORT = rf"(?P<host>{_LITERAL}|{_run(_PLAIN)})(?P<port>:[0-9]*+)?"
_SEGMENT = re.compile(_SEGMENT_TEXT)
_AUTHORITY = re.compile(_HOST_AND_PORT)
_URI = re.compile(
    rf"{_SCHEME_NAME}:(?://(?:{_USER})?{_HOST_AND_PORT}(?:/{_PATH})?|(?!//){_PATH})(?:\?{_QUERY})?(?:#{_QUERY})?"
)


def is_scheme(text: str) -> bool:
    """Whether the text is a scheme, such as `https`."""
    return _SCHEME.fullmatch(text) is not None


def is_segment(text: str) -> bool:
    """Whether the text could stand between two slashes of a path; an empty one could."""
    return _SEGMENT.fullmatch(text) is not None


def is_host_and_port(text: str) -> bool:
    """Whether the text is an authority that names a host, perhaps a port, and no user."""
    match = _AUTHORITY.fullmatch(text)
    return match is not None and match["host"] != "" and _has_sound_literal(match)


def is_uri(text: str) -> bool:
    """Whether the text is a URI: with a scheme, so not relative; a fragment may be there."""
    match = _URI.fullmatch(text)
    return match is not None and _has_sound_literal(match)


def _has_sound_literal(match: re.Match[str]) -> bool:
    """Whether brackets around what looks like an IPv6 address, if there are any, hold one."""
    literal = match["ipv6"]
    if literal is None:
        return True
    try:
        IPv6Address(literal)
    except ValueError:
        return False
    return True


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


def parse_retry_after(value: str, now_ms: int) -> float | None:
    """The seconds that a Retry-After header field asks for (RFC 9110), or None when it is not clear."""
    value = value.strip()
    if _WHOLE_SECONDS.fullmatch(value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now_ms / 1_000)
    except (ValueError, TypeError, IndexError, OverflowError):  # the parser lets all of these out
        return None


def near_words(word: str, known: Iterable[str], most: int) -> list[str]:
    """At most `most` known words that resemble a misspelt one, the nearest first."""
    near: list[str] = import_module("difflib").get_close_matches(word, list(known), n=most)
    return near
