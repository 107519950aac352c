"""The events of publishing."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class Delivered(DomainEvent):
    """A notification has arrived in the inboxes of these accounts, which are given by their numbers."""

    accounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AllMarkedRead(DomainEvent):
    """A project has marked all of its notifications as read."""
