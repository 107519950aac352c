"""The URL of a PostgreSQL database: read, checked, and shown without its password."""

from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

_SCHEMES = ("postgresql", "postgres")
_SECRETS = ("password", "sslpassword")
_EXAMPLE = "postgresql://user:password@host:5432/name"
_NAMES_A_DATABASE = ("dbname", "database", "service")
_HIGHEST_PORT = 65_535


def checked_url(url: str) -> str:
    """The URL, which a driver can take apart. Raises ValueError, whose text repeats no part of it."""
    parts = _split(url)
    if parts.scheme.lower() not in _SCHEMES:
        raise ValueError(f"must be the URL of a PostgreSQL database, such as {_EXAMPLE}")
    if parts.netloc.count("@") > 1 or parts.fragment:
        raise ValueError("a character of the password must be encoded: write @ as %40, / as %2F, # as %23")
    _check_ports(parts)
    try:
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise ValueError("what follows the ? must be name=value, joined by &") from None
    if not parts.path.strip("/") and not query.keys() & set(_NAMES_A_DATABASE):
        raise ValueError(f"must name the database after the host: {_EXAMPLE}")
    return url


def url_without_password(url: str) -> str:
    """The URL as it may be shown: a password in it is `***`."""
    try:
        parts = _split(url)
    except ValueError:
        return "***"
    login, at, hosts = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    netloc = f"{user}:***@{hosts}" if colon else f"{login}{at}{hosts}"
    pairs = [(name, "***" if name in _SECRETS else value) for name, value in parse_qsl(parts.query)]
    return urlunsplit((parts.scheme, netloc, parts.path, urlencode(pairs, safe="*/:,"), ""))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ValueError(f"cannot be read: write it as {_EXAMPLE}") from None


def _check_ports(parts: SplitResult) -> None:
    """The ports of its hosts, of which there may be several, with commas between them."""
    for host in parts.netloc.rpartition("@")[2].split(","):
        _, colon, port = host.rpartition("]")[2].rpartition(":")
        if colon and not (port.isascii() and port.isdecimal() and 0 < int(port) <= _HIGHEST_PORT):
            raise ValueError(
                f"the port after the host must be a number from 1 to {_HIGHEST_PORT}; in a password, "
                "write / as %2F, ? as %3F, # as %23"
            )
