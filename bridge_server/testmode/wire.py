"""JSON of the control routes to models and back (docs/testing.md)."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from bridge_server.kernel.errors import Fault as InputFault
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.rfc3339 import milliseconds_of
from bridge_server.testmode.faults import MOST_FAULTS
from bridge_server.testmode.models import CountedFault, Fault, Sent, Where

_MOST_SECONDS = 10 * 366 * 86_400
_DISK_ANSWERS = ("full", "locked")


class FaultShape(BaseModel):
    """A rule as a test writes it. A member that is not known is refused: a mistyped rule would never strike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: Literal["request", "webhook", "fcm", "apns", "webpush", "node", "disk"]
    route: str | None = None
    status: Annotated[int, Field(ge=200, le=599)] | None = None
    retry_after: Annotated[int, Field(ge=0, le=86_400)] | None = None
    answer: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    delay_ms: Annotated[int, Field(ge=0, le=60_000)] = 0
    drop: bool = False
    after: Annotated[int, Field(ge=0)] = 0
    times: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _does_something(self) -> "FaultShape":
        if self.where == "disk" and self.answer not in _DISK_ANSWERS:
            raise ValueError('a fault of the disk has an answer, "full" or "locked"')
        if self.status is None and self.answer is None and not self.drop and not self.delay_ms:
            raise ValueError("a fault needs a status, an answer, a drop or a delay_ms")
        if self.route is not None and self.where != "request":
            raise ValueError('only a fault of a "request" has a route')
        return self


_FAULTS = TypeAdapter(Annotated[list[FaultShape], Field(max_length=MOST_FAULTS)])


def read_faults(document: Any, routes: frozenset[str]) -> Sequence[Fault]:
    """The rules in a JSON array; `routes` are the names that a rule may have. Raises InvalidInputError."""
    try:
        shapes = _FAULTS.validate_python(document, strict=True)
    except ValidationError as error:
        faults = [
            InputFault(_pointer(each["loc"]), each["msg"].removeprefix("Value error, "))
            for each in error.errors()
        ]
        raise InvalidInputError("The faults cannot be read.", faults) from error
    unknown = [
        place for place, shape in enumerate(shapes) if shape.route is not None and shape.route not in routes
    ]
    if unknown:
        detail = f"is no route's name: there are {', '.join(sorted(routes))}"
        raise InvalidInputError(
            "The faults cannot be read.", [InputFault(f"#/{place}/route", detail) for place in unknown]
        )
    return [_fault(shape) for shape in shapes]


def read_clock(document: dict[str, Any]) -> tuple[float | None, int | None, bool]:
    """Seconds to advance, or milliseconds since the Unix epoch to set; and whether the clock stands still.

    Raises InvalidInputError.
    """
    advance, now, frozen = document.get("advance"), document.get("now"), document.get("frozen", False)
    if not isinstance(frozen, bool):
        raise _fault_at("#/frozen", "must be true or false")
    if (advance is None) == (now is None):
        raise _fault_at("#", "needs either «advance», in seconds, or «now», a date and time")
    if now is not None:
        return None, _moment(now), frozen
    if isinstance(advance, bool) or not isinstance(advance, int | float) or not math.isfinite(advance):
        raise _fault_at("#/advance", "must be a number of seconds")
    if not 0 <= advance <= _MOST_SECONDS:
        raise _fault_at("#/advance", "must be from 0 to 316224000 seconds (ten years): set «now» to go back")
    return float(advance), None, frozen


def write_clock(now_ms: int, frozen: bool, swept: int, delivered: int) -> bytes:
    """The clock after a move, and how much became due by it."""
    return orjson.dumps({"now": rfc3339(now_ms), "frozen": frozen, "swept": swept, "delivered": delivered})


def write_faults(rules: Sequence[CountedFault]) -> bytes:
    """The rules in their order, each with its hits."""
    return orjson.dumps({"faults": [{**_fault_fields(each.rule), "hits": each.hits} for each in rules]})


def write_sent(messages: Sequence[Sent]) -> bytes:
    """Messages that left the server, oldest first."""
    return orjson.dumps({"sent": [_sent_fields(each) for each in messages]})


def _moment(text: Any) -> int:
    if not isinstance(text, str):
        raise _fault_at("#/now", "must be a date and time as in RFC 3339, such as 2027-01-15T08:00:00Z")
    try:
        return milliseconds_of(text)
    except ValueError as error:
        raise _fault_at("#/now", str(error)) from error


def _fault_at(pointer: str, detail: str) -> InvalidInputError:
    return InvalidInputError("The clock cannot be set.", [InputFault(pointer, detail)])


def _fault(shape: FaultShape) -> Fault:
    return Fault(
        Where(shape.where),
        shape.route,
        shape.status,
        shape.retry_after,
        shape.answer,
        shape.delay_ms,
        shape.drop,
        shape.after,
        shape.times,
    )


def _fault_fields(rule: Fault) -> dict[str, Any]:
    fields = {
        "where": rule.where.value,
        "route": rule.route,
        "status": rule.status,
        "retry_after": rule.retry_after_seconds,
        "answer": rule.answer,
        "delay_ms": rule.delay_ms or None,
        "drop": rule.drop or None,
        "after": rule.after or None,
        "times": rule.times,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _sent_fields(sent: Sent) -> dict[str, Any]:
    text = sent.payload if isinstance(sent.payload, dict) else {}
    fields = {
        "id": sent.message_id,
        "channel": sent.channel,
        "at": rfc3339(sent.at_ms),
        "outcome": sent.outcome,
        "reason": sent.reason or None,
        "topic": sent.topic,
        "account": sent.account,
        "url": sent.url,
        "token": sent.token,
        "title": text.get("title"),
        "body": text.get("body"),
        "headers": dict(sent.headers) or None,
    }
    return {**{name: value for name, value in fields.items() if value is not None}, "payload": sent.payload}


def _pointer(location: tuple[int | str, ...]) -> str:
    return "#" + "".join(f"/{step}" for step in location)
