"""The shape of a request body, checked by pydantic: every fault is named at once, each with its place."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WithJsonSchema

from bridge_server.kernel.errors import Fault, InvalidInputError

WEB_URL = WithJsonSchema({"type": "string", "format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"})
"""The schema of a URL that `http_url` checks, in the server's description."""

_PLACES_NAMED = 10


class Shape(BaseModel):
    """A body as the protocol spells it. Types are strict; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, defer_build=True)


AnyShape = TypeVar("AnyShape", bound=Shape)


def check(shape: type[AnyShape], values: dict[str, Any], found: Sequence[Fault] = ()) -> AnyShape:
    """Return the values in that shape; raise InvalidInputError with every fault otherwise.

    `found` are faults that the caller has found already.
    """
    faults = list(found)
    try:
        checked = shape.model_validate(values)
    except ValidationError as error:
        faults += [Fault(_pointer(fault["loc"]), _sentence(fault["msg"])) for fault in error.errors()]
    if faults:
        raise InvalidInputError(f"The body has faults at {_places(faults)}.", faults)
    return checked


def misspelled(shape: type[Shape], values: Any, place: str = "#") -> list[Fault]:
    """Unknown members that differ from a known one only in case and punctuation: a sender of `notificationId`
    would not notice that it was ignored.
    """
    if not isinstance(values, dict):
        return []
    names = {_letters(name): name for name in shape.model_fields}
    faults = [
        Fault(f"{place}/{_escaped(name)}", f"is not known: write {names[_letters(name)]}")
        for name in values
        if name not in shape.model_fields and _letters(name) in names
    ]
    for name, field in shape.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Shape):
            faults += misspelled(field.annotation, values.get(name), f"{place}/{name}")
    return faults


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _places(faults: Sequence[Fault]) -> str:
    places = [fault.pointer for fault in faults[:_PLACES_NAMED]]
    left = len(faults) - len(places)
    return ", ".join(places) + (f" and {left} more" if left else "")


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON Pointer as a URI fragment (RFC 6901, section 6)."""
    return "#" + "".join(f"/{_escaped(str(step))}" for step in location)


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _sentence(message: str) -> str:
    return message.removeprefix("Value error, ")
