"""Outgoing messages, the queues in which they wait, and the values that the store returns for both."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, NewType, TypeAlias

from yarl import URL

from bridge_server.kernel.errors import ConflictError, NotFoundError
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.values import dataclass

UNREADABLE_DESTINATION = "unreadable"
"""The destination of a message whose URL cannot be read: its lane refuses it."""

PUBLIC_MARK = "public+"
"""Before the scheme of a URL whose receiver must be public, whatever the settings allow."""

_WEB_SCHEMES = ("", "http", "https")
_HOST = re.compile(r"(.*?)(?::[0-9]*)?", re.ASCII)

Purpose = NewType("Purpose", str)
"""The kind of thing that a message serves, such as `device`. A room defines the purposes of its messages."""


class Queue(NamedTuple):
    """Messages of one destination that serve one subject. They are sent in their order."""

    destination: str
    name: str


class Claimant(NamedTuple):
    """A queue that has a message due, and the client that the message counts to. `client` is the address of
    the client that caused the message, None when that client is exempt from quotas or the server caused it.
    `has_failed` says that every message that is due was tried before.
    """

    queue: Queue
    client: str | None
    has_failed: bool

    @property
    def host(self) -> str:
        """The host without its port; empty for a channel, which this server's operator has chosen."""
        return host_of(self.queue.destination)


@dataclass(frozen=True, slots=True)
class DeviceEndpoint:
    """The address of a device in the outbox: a webhook's URL, or a URL whose scheme is the channel. `lane` is
    the queue of its messages, such as one for all of FCM. None: the lane of the URL's host.
    """

    url: str = field(repr=False)
    lane: str | None


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A body of JSON to POST to an absolute http(s) URL, or to hand to the channel that another scheme names.

    Every attempt has its `message_id`. The `purpose` decides what is forgotten when the receiver is gone; the
    `subject` is the session, the topic or the project that the message is about. `signing_secret`, a Standard
    Webhooks secret, signs it instead of the server's own. `lane` is its destination, for a channel that knows
    better than its URL. `device_id` names the device that it is for, whose state is then kept. `client` is
    the address that is charged for it, None when its client is exempt or the server itself caused it.
    """

    message_id: str
    url: str = field(repr=False)
    body: bytes = field(repr=False)
    purpose: Purpose
    signing_secret: str | None = field(default=None, repr=False)
    lane: str | None = None
    device_id: str | None = None
    client: str | None = None
    subject: str | None = None

    @property
    def size_bytes(self) -> int:
        """The number of bytes that storing it takes."""
        return len(self.url.encode()) + len(self.body)

    @property
    def channel(self) -> str:
        """The scheme of the URL."""
        return self.url.partition(":")[0]

    @property
    def destination(self) -> str:
        """Such as `https://example.com:443`; of a URL that names no host, its scheme: a channel."""
        if self.lane is not None:
            return self.lane
        try:
            url = URL(unmarked(self.url))
        except ValueError:
            return UNREADABLE_DESTINATION
        if not url.raw_host and url.scheme not in _WEB_SCHEMES:
            return url.scheme
        if not url.scheme or not url.raw_host or url.port is None:
            return UNREADABLE_DESTINATION
        host = url.raw_host.lower().rstrip(".")
        return f"{url.scheme}://{f'[{host}]' if ':' in host else host}:{url.port}"

    @property
    def queue(self) -> Queue:
        """The queue at its destination. At a host that a client named, every device and every subject has a
        separate queue; a channel sends everything in its order.
        """
        is_webhook = self.channel.removeprefix(PUBLIC_MARK) in ("http", "https")
        return Queue(self.destination, (self.device_id or self.subject or "") if is_webhook else "")


def unmarked(url: str) -> str:
    """The URL without the mark of URLs whose receivers must be public."""
    return url.removeprefix(PUBLIC_MARK)


GoneHandlers: TypeAlias = Mapping[Purpose, Callable[[OutgoingMessage], Awaitable[None]]]
"""Forget the registration that caused a message whose receiver has answered that it is gone; by purpose."""


@lru_cache(maxsize=4_096)
def host_of(destination: str) -> str:
    """The host of a destination without its port; empty when it names none."""
    _, separator, authority = destination.partition("://")
    found = _HOST.fullmatch(authority) if separator else None
    return found.group(1) if found else ""


class DueMessage(NamedTuple):
    """A stored message: its row, the number of attempts, when it was written and when it is due next."""

    row_id: int
    message: OutgoingMessage
    attempts: int
    created_at_ms: int
    due_at_ms: int


class PendingQueue(NamedTuple):
    """A queue with pending messages: whether a message is due now, and when the next one becomes due."""

    claimant: Claimant
    is_due: bool
    next_due_ms: int | None


class MessageState(StrEnum):
    """The state of a stored message. A delivered message is stored no longer."""

    DUE = "due"
    """The message is being sent, or waits for its turn."""
    WAITING = "waiting"
    """An attempt has failed, and the next one comes later."""
    DEAD = "dead"
    """The message was given up."""


class MessageKind(StrEnum):
    """The kind of a message, by its purpose."""

    WEBHOOK = "webhook"
    PUSH = "push"
    """The message is for a device, which a webhook may stand for."""


class StoredMessage(NamedTuple):
    """A stored message as the operator sees it, without its URL and its body. Times are milliseconds since
    the Unix epoch. `next_attempt_at_ms` is None for a dead letter, and `died_at_ms` for any other message.
    """

    row_id: int
    message_id: str
    queue: Queue
    purpose: Purpose
    subject: str | None
    device_id: str | None
    client: str | None
    attempts: int
    created_at_ms: int
    next_attempt_at_ms: int | None
    died_at_ms: int | None
    last_error: str | None

    def state(self, now_ms: int) -> MessageState:
        """The state at this time."""
        if self.next_attempt_at_ms is None:
            return MessageState.DEAD
        return MessageState.DUE if self.next_attempt_at_ms <= now_ms else MessageState.WAITING


class WholeMessage(NamedTuple):
    """A stored message with all that is sent."""

    stored: StoredMessage
    message: OutgoingMessage


class MessageFilter(NamedTuple):
    """The messages to list; None leaves a condition out."""

    state: MessageState | None = None
    purpose: str | None = None
    destination: str | None = None
    kind: MessageKind | None = None


class MessagePlace(NamedTuple):
    """A place in the order of a list: of dead letters the time of death and the row, else the row alone."""

    row_id: int
    died_at_ms: int = 0


class MessagePage(NamedTuple):
    """Messages, newest first. `rest` is the place after which more may follow, None at the end. A page may be
    short, or empty, although more follow: only so many rows are read for one page.
    """

    messages: Sequence[StoredMessage]
    rest: MessagePlace | None


class MessageNotFoundError(NotFoundError, code="message-not-found", title="No such message"):
    """There is no such message: it never was, it was delivered, or it was dropped."""

    detail = "The outbox has no such message: it was delivered or dropped, or never was."


class AttemptNotFoundError(NotFoundError, code="attempt-not-found", title="No such attempt"):
    """The attempt to deliver is not kept any more, or never was made."""

    detail = "There is no such attempt: only the last ones are kept, and none after a restart."


class MessageBeingSentError(ConflictError, code="message-being-sent", title="The message is being sent"):
    """An attempt to deliver the message is under way."""

    detail = "The message is being sent at this moment: try again in a few seconds."


@dataclass(frozen=True, slots=True)
class OutboxGrew(DomainEvent):
    """A queue has so many more messages, at least one of them due; the last message counts to `client`.
    `were_tried` says that an operator has made messages due again that were tried before.
    """

    destination: str
    queue: str
    client: str | None
    messages: int
    were_tried: bool = False


@dataclass(frozen=True, slots=True)
class OutboxChanged(DomainEvent):
    """The changes of the numbers of pending messages and of dead letters, apart from `OutboxGrew`."""

    pending: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class OutboxCounted(DomainEvent):
    """The numbers of pending messages and of dead letters at this commit."""

    pending: int
    dead: int


def grown_by(message: OutgoingMessage, messages: int = 1) -> OutboxGrew:
    """The event for the message's queue, which has this many more messages."""
    destination, queue = message.queue
    return OutboxGrew(destination, queue, message.client, messages)
