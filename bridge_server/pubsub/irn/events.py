"""The events of generation 2.x, which only processes that share a database need."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class IrnMessagesStored(DomainEvent):
    """There are new messages on the topic, for the sockets of every process. `sender` gets none of them."""

    topic: str
    sender: str
