"""The events of the store of approvals."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class ApprovalsChanged(DomainEvent):
    """A request waits for a decision, or waits no more."""
