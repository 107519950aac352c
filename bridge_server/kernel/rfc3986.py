"""The grammar of URIs (RFC 3986, appendix A), as yes-or-no questions.

Every repetition is possessive, so that no text takes longer than its length.
"""

import re
from ipaddress import IPv6Address

_PLAIN = r"A-Za-z0-9\-._~!$&'()*+,;="  # unreserved and sub-delims


def _run(characters: str) -> str:
    return rf"(?:[{characters}]++|%[0-9A-Fa-f]{{2}})*+"


_SCHEME_NAME = r"[A-Za-z][A-Za-z0-9+.\-]*+"
_SEGMENT_TEXT = _run(_PLAIN + ":@")
_PATH = _run(_PLAIN + ":@/")
_QUERY = _run(_PLAIN + ":@/?")
_LITERAL = rf"\[(?:(?P<ipv6>[0-9A-Fa-f:.]++)|[vV][0-9A-Fa-f]++\.[{_PLAIN}:]++)\]"
_USER = rf"{_run(_PLAIN + ':')}@"

# An IPv4 address is spelled like any registered name.
_HOST_AND_PORT = rf"(?P<host>{_LITERAL}|{_run(_PLAIN)})(?P<port>:[0-9]*+)?"

_SCHEME = re.compile(_SCHEME_NAME)
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
