"""Ways to deliver a message, each by the scheme of the URLs that it serves."""

from collections.abc import Mapping
from typing import Protocol

import orjson
import structlog

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outgoing.outcome import Outcome, Verdict

log = structlog.get_logger()


class Sender(Protocol):
    """Makes one attempt to deliver. Every failure becomes an outcome, never an error."""

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver the message."""
        ...


class LogSender:
    """Writes messages to the log, for development: no device is needed to see its notices."""

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        notice = orjson.loads(message.body)
        texts = {"title": notice.get("title"), "text": notice.get("body")}
        whom = {"topic": notice.get("topic"), "account": notice.get("account"), "device": message.device_id}
        known = {name: value for name, value in whom.items() if value is not None}
        log.info("device_notified", message_id=message.message_id, **known, **texts)
        return Outcome(Verdict.DELIVERED)


class Channels:
    """A sender that hands each message to the sender of its channel, or to `otherwise` without one."""

    def __init__(self, by_channel: Mapping[str, Sender], otherwise: Sender) -> None:
        self._by_channel = by_channel
        self._otherwise = otherwise

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver the message."""
        sender = self._by_channel.get(message.channel, self._otherwise)
        return await sender.send(message, now_ms)
