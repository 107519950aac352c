"""The origin of a dapp's page."""

from urllib.parse import urlsplit


def origin_of(url: str) -> str:
    """`https://dapp.example` of any URL there; empty for a text that is no URL of a page."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()
