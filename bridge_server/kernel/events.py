"""Events: changes by a commit, announced once it is on disk. The room that announces an event defines its
type, a frozen dataclass of texts, whole numbers and tuples of them. So a driver can carry an event to other
processes, as its type's name and its fields.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, TypeVar

import orjson
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
        self._everywhere: dict[type[DomainEvent], list[Callable[[Any], None]]] = {}
        self._on_gap: list[Callable[[], None]] = []

    def subscribe(
        self, event_type: type[AnyEvent], listener: Callable[[AnyEvent], None], *, everywhere: bool = False
    ) -> None:
        """Call `listener` with every event of this type from now on. With `everywhere` also with events of
        other processes on the same database, as far as these are heard: such a listener looks for itself,
        with `on_gap`, when some may have been missed.
        """
        self._listeners.setdefault(event_type, []).append(listener)
        if everywhere:
            self._everywhere.setdefault(event_type, []).append(listener)

    def subscribe_elsewhere(self, event_type: type[AnyEvent], listener: Callable[[AnyEvent], None]) -> None:
        """Call `listener` with events of this type that other processes announce, and not with own ones."""
        self._everywhere.setdefault(event_type, []).append(listener)

    def on_gap(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever events of other processes may have been missed."""
        self._on_gap.append(listener)

    def publish(self, event: DomainEvent) -> None:
        """Call every listener of the event's type. A listener that raises is logged, and harms no other."""
        for listener in self._listeners.get(type(event), ()):
            try:
                listener(event)
            except Exception:
                log.exception("listener_failed", event_type=type(event).__name__)

    def hear(self, event: DomainEvent) -> None:
        """Call the listeners that want this event also when another process announces it."""
        for listener in self._everywhere.get(type(event), ()):
            try:
                listener(event)
            except Exception:
                log.exception("listener_failed", event_type=type(event).__name__)

    def hear_everything(self) -> None:
        """Other processes may have announced anything: have the listeners look for themselves."""
        for listener in self._on_gap:
            try:
                listener()
            except Exception:
                log.exception("listener_failed", event_type="everything")


class UnreadableEventError(Exception):
    """The fields do not fit the type here: another version of the program wrote them."""


class EventTexts:
    """Events of some types as texts, which a database driver carries to other processes. An event is a JSON
    array: the name of its type, then its fields. A tuple is an array, too.
    """

    def __init__(self, types: Iterable[type[DomainEvent]]) -> None:
        carried_types: Iterable[Any] = types
        self._fields = {each: tuple(field.name for field in fields(each)) for each in carried_types}
        self._types: dict[str, type[DomainEvent]] = {each.__name__: each for each in self._fields}

    def carries(self, event: DomainEvent) -> bool:
        """Whether other processes are to hear the event."""
        return type(event) in self._fields

    def write(self, event: DomainEvent) -> bytes:
        """The JSON of an event that is carried. Raises TypeError for an event that JSON cannot hold."""
        kind = type(event)
        return orjson.dumps([kind.__name__, *(getattr(event, name) for name in self._fields[kind])])

    def read(self, array: list[Any]) -> DomainEvent | None:
        """The event of an array; None for a type that is not carried. Raises UnreadableEventError."""
        name, *values = array
        kind = self._types.get(name)
        if kind is None:
            return None
        if len(values) != len(self._fields[kind]):
            raise UnreadableEventError(name)
        return kind(*map(_value, values))


def _value(value: Any) -> Any:
    return tuple(map(_value, value)) if isinstance(value, list) else value
