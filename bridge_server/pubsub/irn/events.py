"""The events of generation 2.x, which only processes that share a database need."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class IrnMessagesStored(DomainEvent):
    """There are new messages on the topic, for the sockets of every process. `sender` gets none of them."""

    topic: str
    sender: str


@dataclass(frozen=True, slots=True)
class IrnReceiptsGiven(DomainEvent):
    """A client has acknowledged at one process what it may have been sent on this topic by another."""

    client: str
    topic: str
    request_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IrnReceiptsStored(DomainEvent):
    """Acknowledgements that another process has asked about are on disk."""

    request_ids: tuple[int, ...]
