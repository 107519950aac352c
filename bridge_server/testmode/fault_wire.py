"""JSON of ordered faults to models and back (docs/test-mode.md)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.near_words import near_words
from bridge_server.testmode.faults import MOST_FAULTS
from bridge_server.testmode.models import CountedFault, FaultRule, Where

Words: TypeAlias = Mapping[Where, frozenset[str] | None]
"""The answers that a rule may give, by place; None stands for any, and a place without an entry has none."""

_WITH_ROUTES = ("request", "node")
_FIRST_FAILURE = 400


class FaultShape(BaseModel):
    """A rule as a test writes it. A mistyped member is refused: its rule would never strike."""

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
        if self.where == "disk" and self.answer is None:
            raise ValueError('a fault of the disk has an answer, "full" or "locked"')
        if self.where == "request" and self.status is not None and self.status < _FIRST_FAILURE:
            raise ValueError("a request fails with a status from 400 to 599")
        if self.status is None and self.answer is None and not self.drop and not self.delay_ms:
            raise ValueError("a fault needs a status, an answer, a drop or a delay_ms")
        if self.route is not None and self.where not in _WITH_ROUTES:
            raise ValueError('only a fault of a "request" or of the "node" has a route')
        return self


_FAULTS = TypeAdapter(Annotated[list[FaultShape], Field(max_length=MOST_FAULTS)])


def read_faults(document: Any, routes: frozenset[str], words: Words) -> Sequence[FaultRule]:
    """The rules in a JSON array. Raises InvalidInputError with every fault of them.

    `routes` are the names that a rule may have, and `words` the answers that it may give, by place.
    """
    try:
        shapes = _FAULTS.validate_python(document, strict=True)
    except ValidationError as error:
        raise _unreadable(
            Fault(_pointer(each["loc"]), each["msg"].removeprefix("Value error, ")) for each in error.errors()
        ) from error
    rules = [_fault(shape) for shape in shapes]
    wrong = [fault for place, rule in enumerate(rules) for fault in _wrong_names(place, rule, routes, words)]
    if wrong:
        raise _unreadable(wrong)
    return rules


def _wrong_names(place: int, rule: FaultRule, routes: frozenset[str], words: Words) -> Iterator[Fault]:
    if rule.where is Where.REQUEST and rule.route is not None and rule.route not in routes:
        yield Fault(f"#/{place}/route", _not_among(rule.route, routes))
    known = words.get(rule.where, frozenset())
    if rule.answer is not None and known is not None and rule.answer not in known:
        yield Fault(f"#/{place}/answer", _not_among(rule.answer, known))


def _not_among(name: str, known: frozenset[str]) -> str:
    if not known:
        return "has no meaning at this place: use a status, a drop or a delay_ms"
    near = near_words(name, known, 1)
    return f"{name!r} is not known" + (
        f"; did you mean {near[0]}?" if near else f": {', '.join(sorted(known))}"
    )


def _unreadable(faults: Iterable[Fault]) -> InvalidInputError:
    return InvalidInputError("The rules cannot be read, and those before stay in force.", tuple(faults))


def write_faults(rules: Sequence[CountedFault]) -> bytes:
    """The rules in their order, each with its hits."""
    return orjson.dumps({"faults": list(map(counted_fields, rules))})


def counted_fields(counted: CountedFault) -> dict[str, Any]:
    """A rule with its hits."""
    return {**_fault_fields(counted.rule), "hits": counted.hits}


def _fault(shape: FaultShape) -> FaultRule:
    return FaultRule(
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


def _fault_fields(rule: FaultRule) -> dict[str, Any]:
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


def _pointer(location: tuple[int | str, ...]) -> str:
    return "#" + "".join(f"/{step}" for step in location)
