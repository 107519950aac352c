"""The events of the outbox's store: queues that have more to send, and how many messages there are."""

from dataclasses import dataclass

from bridge_server.kernel.events import Event
from bridge_server.outbox.models import OutgoingMessage


@dataclass(frozen=True, slots=True)
class OutboxGrew(Event):
    """A queue of a destination has so many messages more that are due; the last one counts to `client`."""

    destination: str
    queue: str
    client: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class OutboxChanged(Event):
    """How many more messages are owed and dead letters kept than before, apart from `OutboxGrew`.

    A negative number means fewer.
    """

    owed: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class OutboxCounted(Event):
    """How many messages were owed and dead letters kept at this commit."""

    owed: int
    dead: int


def grown_by(message: OutgoingMessage, messages: int = 1) -> OutboxGrew:
    """The event for the message's queue, which has so many messages more."""
    destination, queue = message.queue
    return OutboxGrew(destination, queue, message.client, messages)
