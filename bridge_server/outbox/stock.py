"""The numbers of pending messages and of dead letters, from the events of every commit."""

from dataclasses import dataclass

from bridge_server.kernel.events import Events
from bridge_server.outbox.events import OutboxChanged, OutboxCounted, OutboxGrew


@dataclass(slots=True)
class Stock:
    """The two figures. They are right from the first count on."""

    due: int = 0
    dead: int = 0

    def subscribe_to(self, events: Events) -> None:
        """Follow the changes from now on."""
        events.subscribe(OutboxGrew, self._add)
        events.subscribe(OutboxChanged, self._change)
        events.subscribe(OutboxCounted, self._set)

    def _add(self, event: OutboxGrew) -> None:
        self.due += event.messages

    def _change(self, event: OutboxChanged) -> None:
        self.due += event.owed
        self.dead += event.dead

    def _set(self, event: OutboxCounted) -> None:
        self.due, self.dead = event.owed, event.dead
