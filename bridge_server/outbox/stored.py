"""Stored messages as the operator sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge_server.outbox.models import OutgoingMessage, Purpose, Queue


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


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message without its URL and its body. Times are milliseconds since the Unix epoch.

    `next_attempt_at_ms` is None for a dead letter, and `died_at_ms` for any other message.
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


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """A stored message with all that is sent."""

    stored: StoredMessage
    message: OutgoingMessage


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """The messages to list; None leaves a condition out."""

    state: MessageState | None = None
    purpose: str | None = None
    destination: str | None = None
    kind: MessageKind | None = None


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """A place in the order of a list: of dead letters the time of death and the row, else the row alone."""

    row_id: int
    died_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages, newest first. `rest` is the place after which more may follow, None at the end.

    A page may be short, or empty, although more follow: only so many rows are looked at for one page.
    """

    messages: Sequence[StoredMessage]
    rest: MessagePlace | None
