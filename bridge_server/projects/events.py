"""The event of projects."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class ProjectChanged(DomainEvent):
    """A project, its types, secrets or subscriptions have changed, or it was created or deleted."""

    project_id: str
