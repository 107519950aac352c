"""The events of generation 1.x, which only processes that share a database need."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class MessagesStored(DomainEvent):
    """There are new messages on the topic, for the sockets of every process."""

    topic: str
