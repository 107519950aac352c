"""The events of the outbox's store: queues that have more to send, and the numbers of messages."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent
from bridge_server.outbox.models import OutgoingMessage


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

    owed: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class OutboxCounted(DomainEvent):
    """The numbers of pending messages and of dead letters at this commit."""

    owed: int
    dead: int


def grown_by(message: OutgoingMessage, messages: int = 1) -> OutboxGrew:
    """The event for the message's queue, which has this many more messages."""
    destination, queue = message.queue
    return OutboxGrew(destination, queue, message.client, messages)
