"""URLs that a user can be offered to open: absolute URIs (RFC 3986) and IRIs (RFC 3987)."""

import re
import unicodedata
from urllib.parse import quote

from bridge_server.kernel.rfc3986 import is_uri

_REFUSED_SCHEMES = frozenset({"javascript", "data", "vbscript", "file", "blob", "about"})
"""Schemes that run code in the URL, or that show local content."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_PARTS = re.compile(r"([^:]+):(?://([^/?#]*))?(.*)")
_NOT_IN_IRIS = frozenset({"Cc", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
"""Unicode categories whose characters an IRI must not contain."""
_BIDI_CONTROLS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Controls of text direction, which can disguise a URL (RFC 3987, 4.1)."""
_WEB = frozenset({"http", "https"})
_LAST_PORT = 65_535


def openable_url(text: str) -> str:
    """Return the text if a user can be offered to open it; raise ValueError otherwise."""
    if any(unicodedata.category(each) in _NOT_IN_IRIS for each in text) or _BIDI_CONTROLS.search(text):
        raise ValueError("must not contain spaces, or control characters")
    if not is_uri(_BEYOND_ASCII.sub(lambda found: quote(found[0]), text)):
        raise ValueError("must be an absolute URL, such as https://app.example.org/orders/1 or myapp://open")
    found = _PARTS.fullmatch(text)
    assert found is not None  # is_uri() has accepted it
    scheme, authority, rest = found[1].lower(), found[2], found[3]
    if scheme in _REFUSED_SCHEMES:
        raise ValueError(f"must not be a {scheme} URL, which is not safe to open")
    if authority and "@" in authority:
        raise ValueError("must not name a user or a password")
    if not (authority or rest) or (scheme in _WEB and not _is_web_authority(authority or "")):
        raise ValueError("must name a valid host")
    return text


def _is_web_authority(authority: str) -> bool:
    host, _, port = authority.rpartition(":") if re.search(r":[0-9]*$", authority) else (authority, "", "")
    return bool(host) and (not port or 0 < int(port) <= _LAST_PORT)
