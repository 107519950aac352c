"""What is sent, where it goes, and what comes of an attempt."""

from dataclasses import dataclass, field
from enum import Enum, auto

from yarl import URL

UNREADABLE_DESTINATION = "unreadable"
"""The destination of a message whose URL cannot be read: it has a lane too, in which it is refused."""

_WEB_SCHEMES = ("", "http", "https")


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A body of JSON to POST to an absolute http(s) URL, or to hand to the channel that another scheme names.

    `message_id` is the same at every attempt. `signing_secret`, a Standard Webhooks secret, signs it instead
    of the server's own. `lane` says whom it waits with, for a channel that knows better than its URL.
    `device_id` names the device that it is for, whose state is then kept.
    """

    message_id: str
    url: str = field(repr=False)
    body: bytes = field(repr=False)
    signing_secret: str | None = field(default=None, repr=False)
    lane: str | None = None
    device_id: str | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes to store."""
        return len(self.url.encode()) + len(self.body)

    @property
    def channel(self) -> str:
        """The scheme of the URL."""
        return self.url.partition(":")[0]

    @property
    def destination(self) -> str:
        """The unit of fairness: scheme, host and port in one spelling, such as `https://example.com:443`.

        Of a URL that names no host, its scheme: a channel.
        """
        if self.lane is not None:
            return self.lane
        try:
            url = URL(self.url)
        except ValueError:
            return UNREADABLE_DESTINATION
        if not url.raw_host and url.scheme not in _WEB_SCHEMES:
            return url.scheme
        if not url.scheme or not url.raw_host or url.port is None:
            return UNREADABLE_DESTINATION
        host = url.raw_host.lower().rstrip(".")
        return f"{url.scheme}://{f'[{host}]' if ':' in host else host}:{url.port}"


@dataclass(frozen=True, slots=True)
class DueMessage:
    """A stored message: its row, how often it was tried, when it was written and when it is due next."""

    row_id: int
    message: OutgoingMessage
    attempts: int
    created_at_ms: int
    due_at_ms: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is owed to one destination: how many messages, and when the first of them is due."""

    destination: str
    earliest_due_ms: int
    messages: int


class Verdict(Enum):
    """What an attempt means for its message."""

    DELIVERED = auto()
    FAILED = auto()
    """Worth another attempt."""
    GONE = auto()
    """The receiver answered 410: it wants nothing more at this URL."""
    REFUSED = auto()
    """This server will not connect there, now or later; or what it has to say will never be taken."""
    BLOCKED = auto()
    """The channel itself does not work, because this server's credentials are refused."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attempt.

    `reason` is a short text for people, without the URL, empty after a success. `status` is the receiver's
    answer, if it gave one. `retry_after_seconds` is how long it asked to be left alone: in the name of all
    that waits in the message's lane if it is `about_lane`, else only of this message.
    """

    verdict: Verdict
    reason: str = ""
    status: int | None = None
    retry_after_seconds: float | None = None
    about_lane: bool = False
