"""Rules for single values that more than one room takes from outside."""

import re
from urllib.parse import urlsplit

URL_MAX_CHARACTERS = 2048
PUSH_TYPE_MAX_CHARACTERS = 64
PUSH_TOKEN_MAX_CHARACTERS = 4096

# The characters of a URI (RFC 3986). With other characters, parsers disagree about where its host ends.
_URL_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*", re.ASCII)

_NO_ORIGIN = "must be an origin and nothing more, such as https://app.example.org"


def http_url(text: str) -> str:
    """Return the text if it is an absolute http or https URL with a host; raise ValueError otherwise.

    Whether the address behind it may be visited is decided when it is connected to, not here.
    """
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
    """Return the origin of web pages as browsers spell it: scheme and host, and a port that is not the
    scheme's own. Raises ValueError for anything that is more or less than that.
    """
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
