"""The event of a database that several processes use."""

from dataclasses import dataclass

from bridge_server.kernel.events import Event


@dataclass(frozen=True, slots=True)
class ChangedOutside(Event):
    """Another process, such as an operator's command, has committed to the database: anything may have changed."""
