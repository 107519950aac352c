"""Events as texts, which a database driver carries from one process to the others.

An event is a JSON array: the name of its type, then its fields. A tuple is an array, too.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import orjson

from bridge_server.kernel.events import DomainEvent


class UnreadableEventError(Exception):
    """The fields do not fit the type here: another version of the program wrote them."""


class EventTexts:
    """Texts of the events of some types. Others are not carried: no other process needs to know of them."""

    def __init__(self, types: Iterable[type[DomainEvent]]) -> None:
        self._fields = {carried: tuple(field.name for field in _fields(carried)) for carried in types}
        self._types = {carried.__name__: carried for carried in self._fields}

    def carries(self, event: DomainEvent) -> bool:
        """Whether other processes are to hear the event."""
        return type(event) in self._fields

    def write(self, event: DomainEvent) -> bytes:
        """The JSON of an event that is carried. Raises TypeError for an event that JSON cannot hold."""
        kind = type(event)
        return orjson.dumps([kind.__name__, *(getattr(event, name) for name in self._fields[kind])])

    def read(self, array: list[Any]) -> DomainEvent | None:
        """The event of a parsed array; None for a type that is not carried here.

        Raises UnreadableEventError.
        """
        name, *values = array
        kind = self._types.get(name)
        if kind is None:
            return None
        if len(values) != len(self._fields[kind]):
            raise UnreadableEventError(name)
        return kind(*map(_value, values))


def _fields(event_type: Any) -> Any:
    return fields(event_type)


def _value(value: Any) -> Any:
    return tuple(map(_value, value)) if isinstance(value, list) else value
