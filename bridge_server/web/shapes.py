"""The shape of a request body, checked by pydantic: every fault is named at once, each with its place."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bridge_server.kernel.errors import Fault, InvalidInputError

_PLACES_NAMED = 10


class Shape(BaseModel):
    """A body as the contract spells it. Types are strict; unknown fields are ignored."""

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


def _places(faults: Sequence[Fault]) -> str:
    places = [fault.pointer for fault in faults[:_PLACES_NAMED]]
    left = len(faults) - len(places)
    return ", ".join(places) + (f" and {left} more" if left else "")


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON Pointer as a URI fragment (RFC 6901, section 6)."""
    return "#" + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)


def _sentence(message: str) -> str:
    return message.removeprefix("Value error, ")
