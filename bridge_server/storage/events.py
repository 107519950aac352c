"""The event of a database that several processes use."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class ChangedOutside(DomainEvent):
    """Another process, such as an operator's command, has changed the database: any row may be different."""
