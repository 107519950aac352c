"""A sender of messages whose attempts are in the record of requests, as requests of this server."""

from time import perf_counter
from urllib.parse import urlsplit

import orjson

from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outgoing.outcome import Outcome
from bridge_server.web.exchanges import Exchange
from bridge_server.web.traffic import TrafficLog

BRIDGE = "bridge"
"""This server, as the sender of a request in the record."""

_WEBHOOK = "webhook"


class RecordedSender:
    """Sends through the sender; the record gets the receiver's origin and path, and nothing of the body."""

    def __init__(self, sender: Sender, record: TrafficLog, route: str = _WEBHOOK) -> None:
        self._sender = sender
        self._record = record
        self._route = route

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver once."""
        started = perf_counter()
        outcome = await self._sender.send(message, now_ms)
        self._record.note(
            Exchange(
                who=BRIDGE,
                method="POST",
                path=shown_url(message.url),
                route=self._route,
                status=outcome.status or 0,
                milliseconds=round((perf_counter() - started) * 1_000, 1),
                gist=outcome.reason,
                about=about(message),
            )
        )
        return outcome


def about(message: OutgoingMessage) -> bytes:
    """The ids of the session and the call that a notice is about."""
    try:
        call_id = orjson.loads(message.body).get("callId", "")
    except (ValueError, AttributeError):
        call_id = ""
    return f"{message.subject or ''} {call_id}".encode(errors="replace")


def shown_url(url: str) -> str:
    """The URL without user, query and fragment, which may be secrets; of a device, only its channel."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    if not host:
        return f"{parts.scheme}:…"
    return f"{parts.scheme}://{host}{parts.path}"
