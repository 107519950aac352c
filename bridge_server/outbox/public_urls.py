"""URLs of receivers that must be public even where the settings allow private addresses.

Such a URL carries a mark in its scheme, `public+https://`, so that everything that stores it keeps the rule:
the registration, its messages, a restarted server. Nobody can register a marked URL: its scheme is not http.
"""

from dataclasses import replace

from yarl import URL

from bridge_server.kernel.ip_addresses import is_loopback, parse_ip_address
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import PUBLIC_MARK, OutgoingMessage, unmarked
from bridge_server.outgoing.guard import public_only
from bridge_server.outgoing.outcome import Outcome

PUBLIC_SCHEMES = (f"{PUBLIC_MARK}http", f"{PUBLIC_MARK}https")


def marked_public(url: str) -> str:
    """The http(s) URL with the mark."""
    return PUBLIC_MARK + url


def private_address(url: str) -> str | None:
    """The reason why the host of the URL is not public, as far as the URL itself shows it; else None.

    A name may still lead to a private address: the guard judges the address again at each connection.
    """
    try:
        parts = URL(url)
    except ValueError:
        return "the URL cannot be read"
    host, port = parts.raw_host or "", parts.port or 0
    if is_loopback(host.rstrip(".")):
        return "the host is the server's own machine"
    try:
        address = parse_ip_address(host)
    except ValueError:
        return None
    return public_only(str(address), port)


class PublicSender:
    """Sends messages to marked URLs through a sender that reaches public addresses only."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver the message."""
        return await self._sender.send(replace(message, url=unmarked(message.url)), now_ms)
