"""The shape of a request body, checked by pydantic: every fault is named at once, each with its place."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bridge_server.kernel.errors import Fault, InvalidInputError


class Shape(BaseModel):
    """A body as the contract spells it. Types are strict; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


AnyShape = TypeVar("AnyShape", bound=Shape)


def check(shape: type[AnyShape], values: dict[str, Any]) -> AnyShape:
    """Return the values in that shape; raise InvalidInputError with every fault otherwise."""
    try:
        return shape.model_validate(values)
    except ValidationError as error:
        faults = [Fault(_pointer(fault["loc"]), _sentence(fault["msg"])) for fault in error.errors()]
        places = ", ".join(fault.pointer for fault in faults)
        raise InvalidInputError(f"The body has faults at {places}.", faults) from error


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON Pointer as a URI fragment (RFC 6901, section 6)."""
    return "#" + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)


def _sentence(message: str) -> str:
    return message.removeprefix("Value error, ")
