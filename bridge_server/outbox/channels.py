"""Senders of messages by the schemes of their URLs, and the log of attempts to deliver, for operators."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from time import perf_counter
from typing import Protocol
from urllib.parse import urlsplit

import orjson
import structlog
from yarl import URL

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.fields import is_loopback, parse_ip_address
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.guarded_client import Outcome, Verdict, public_only
from bridge_server.outbox.models import PUBLIC_MARK, OutgoingMessage, Purpose, unmarked

log = structlog.get_logger()

BRIDGE = "bridge"
"""This server, as the sender of a request in the record."""
MOST_ATTEMPTS = 500
LARGEST_BODY_BYTES = 16 * 1024
"""The longest body that is kept."""
WEBHOOK_CHANNEL = "webhook"
WEBHOOK_OF_A_DEVICE = "webhook-push"

_WEB_SCHEMES = ("", "http", "https")


class Sender(Protocol):
    """Makes one attempt to deliver. Every failure becomes an outcome, never an error."""

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver the message."""


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
        sender = self._by_channel.get(message.channel, self._otherwise)
        return await sender.send(message, now_ms)


PUBLIC_SCHEMES = (f"{PUBLIC_MARK}http", f"{PUBLIC_MARK}https")


def marked_public(url: str) -> str:
    """The http(s) URL with a mark: its receiver must be public, whatever the settings allow. The mark is in
    the scheme, `public+https://`, so that everything that stores the URL keeps the rule: the registration,
    its messages, a restarted server. Nobody can register a marked URL: its scheme is not http.
    """
    return PUBLIC_MARK + url


def private_address(url: str) -> str | None:
    """The reason why the URL's own host is not public, else None; a name may still lead to such a one."""
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
        return await self._sender.send(replace(message, url=unmarked(message.url)), now_ms)


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
    return f"{parts.scheme}://{host}{parts.path}" if host else f"{parts.scheme}:…"


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One attempt to deliver a message, and its outcome. `body` is kept in test mode only."""

    number: int
    at_ms: int
    message_id: str
    purpose: Purpose
    channel: str
    destination: str
    subject: str | None
    outcome: Outcome
    milliseconds: float
    body: bytes | None = field(default=None, repr=False)


class AttemptLog:
    """The newest attempts to deliver, and counts of outcomes, in memory; the oldest attempts go first.
    `pushes` are the purposes of messages for devices, for which webhooks may stand.
    """

    def __init__(self, clock: Clock, pushes: Collection[Purpose] = (), *, keeps_bodies: bool = False) -> None:
        self._clock = clock
        self._pushes = pushes
        self._keeps_bodies = keeps_bodies
        self._kept: deque[DeliveryAttempt] = deque(maxlen=MOST_ATTEMPTS)
        self.outcomes: dict[str, Counter[str]] = {}
        """The number of attempts since the start, by channel and outcome."""
        self._last_number = 0
        self.on_attempt: list[Callable[[], None]] = []
        """Called after each attempt."""

    def note(self, message: OutgoingMessage, outcome: Outcome, milliseconds: float) -> None:
        """Keep an attempt that took so long."""
        self._last_number += 1
        channel = self._channel(message)
        keeps_body = self._keeps_bodies and len(message.body) <= LARGEST_BODY_BYTES
        self._kept.append(DeliveryAttempt(
            self._last_number, self._clock.now_ms(), message.message_id, message.purpose, channel,
            message.destination, message.subject, outcome, milliseconds, message.body if keeps_body else None,
        ))  # fmt: skip
        self.outcomes.setdefault(channel, Counter())[outcome.verdict.name.lower()] += 1
        for listener in self.on_attempt:
            listener()

    def before(self, number: int | None) -> Iterator[DeliveryAttempt]:
        """The attempts with lower numbers, all of them for None, newest first."""
        return (each for each in reversed(self._kept) if number is None or each.number < number)

    def find(self, number: int) -> DeliveryAttempt | None:
        """The attempt of this number, if it is still kept."""
        return next((each for each in self._kept if each.number == number), None)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.outcomes.clear()

    def _channel(self, message: OutgoingMessage) -> str:
        channel = message.channel.removeprefix(PUBLIC_MARK)
        if channel not in _WEB_SCHEMES:
            return channel
        return WEBHOOK_OF_A_DEVICE if message.purpose in self._pushes else WEBHOOK_CHANNEL


class NotedSender:
    """Sends through the sender, and notes each attempt, but none by an `inner` channel."""

    def __init__(self, sender: Sender, attempts: AttemptLog, inner: frozenset[str] = frozenset()) -> None:
        self._sender = sender
        self._attempts = attempts
        self._inner = inner

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        started = perf_counter()
        outcome = await self._sender.send(message, now_ms)
        if message.channel not in self._inner:
            self._attempts.note(message, outcome, (perf_counter() - started) * 1_000)
        return outcome
