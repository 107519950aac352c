"""Events: changes by a commit, announced once it is on disk. A listener subscribes to one type.

The room that announces an event defines its type: a frozen dataclass of texts, whole numbers and tuples of
them. So an event is its type's name and a JSON array of its fields, which a driver can carry to other
processes.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import structlog

log = structlog.get_logger()


class DomainEvent:
    """Something that has happened. Subclasses are frozen dataclasses with slots."""

    __slots__ = ()


AnyEvent = TypeVar("AnyEvent", bound=DomainEvent)


class Events:
    """Calls the listeners of an event's type, at once and in the order in which they subscribed."""

    def __init__(self) -> None:
        self._listeners: dict[type[DomainEvent], list[Callable[[Any], None]]] = {}

    def subscribe(self, event_type: type[AnyEvent], listener: Callable[[AnyEvent], None]) -> None:
        """Call `listener` with every event of this type from now on."""
        self._listeners.setdefault(event_type, []).append(listener)

    def publish(self, event: DomainEvent) -> None:
        """Call every listener of the event's type.

        A listener that raises is logged, and the others are called.
        """
        for listener in self._listeners.get(type(event), ()):
            try:
                listener(event)
            except Exception:
                log.exception("listener_failed", event_type=type(event).__name__)
