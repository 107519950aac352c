"""JSON of the control routes to models and back (docs/test.md)."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, WithJsonSchema, model_validator

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.fields import near_words
from bridge_server.kernel.instants import milliseconds_of, rfc3339
from bridge_server.testmode import instruments
from bridge_server.web.shapes import Count, Milliseconds, Moment, TypedDict, text
from bridge_server.web.traffic import Contents, Recorded

CHANNELS = ("webhook", "webhook-push", "fcm", "apns", "webpush")
"""The ways out of the server."""

_MOST_SECONDS = 10 * 366 * 86_400
_LONGEST_WAIT_SECONDS = 300.0
_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_WITH_ROUTES = ("request", "node")
_FIRST_FAILURE = 400


class ResetServerAnswer(TypedDict):
    """The clock of a server that was reset."""

    now: Moment


class TestClockAnswer(TypedDict):
    """The clock, and the effects of a move: rows that were swept away, messages that were delivered."""

    now: Moment
    frozen: bool
    swept: Count
    delivered: Count


Advance = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 316_224_000})]


class ClockMoveShape(TypedDict):
    """Either `advance`, or `now` with or without `frozen`."""

    advance: NotRequired[Advance]
    now: NotRequired[Moment]
    frozen: NotRequired[bool]


class CountedFaultAnswer(TypedDict):
    """A rule, and how often it has struck."""

    where: instruments.Where
    route: NotRequired[str]
    status: NotRequired[int]
    retry_after: NotRequired[int]
    answer: NotRequired[str]
    delay_ms: NotRequired[int]
    drop: NotRequired[bool]
    after: NotRequired[int]
    times: NotRequired[int]
    hits: Count


class OrderedFaultsAnswer(TypedDict):
    """The rules in force, in their order."""

    faults: list[CountedFaultAnswer]


class SentMessageAnswer(TypedDict):
    """A message that an attempt to deliver was made for."""

    id: Annotated[str, text("msg_0192f7c8")]
    channel: Annotated[str, text("webhook")]
    at: Moment
    outcome: Annotated[str, text("delivered")]
    reason: NotRequired[str]
    topic: NotRequired[str]
    account: NotRequired[str]
    url: NotRequired[str]
    token: NotRequired[str]
    title: NotRequired[str]
    body: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    payload: Any


class SentMessagesAnswer(TypedDict):
    """The last attempts, oldest first."""

    sent: list[SentMessageAnswer]


class ForgottenMessagesAnswer(TypedDict):
    """The number of messages that were forgotten."""

    deleted: Count


class RecordedContentsAnswer(TypedDict):
    """Header fields without tokens, and the first 16 KiB of a body."""

    headers: dict[str, str]
    body: str
    bytes: Count


class TestRequestAnswer(TypedDict):
    """A request, and its answer if there was one."""

    number: Count
    at: Moment
    who: Annotated[str, text("wallet")]
    method: Annotated[str, text("GET")]
    path: Annotated[str, text("/info")]
    route: Annotated[str, text("info")]
    status: Count
    milliseconds: Milliseconds
    waited: Annotated[float, WithJsonSchema({"type": "number", "minimum": 0})]
    summary: str
    request: NotRequired[RecordedContentsAnswer]
    answer: NotRequired[RecordedContentsAnswer]


class TestTrafficAnswer(TypedDict):
    """The last requests, oldest first, and the number of the newest."""

    requests: list[TestRequestAnswer]
    last: Count


def read_clock(document: Mapping[str, Any]) -> instruments.ClockMove:
    """`{"advance": seconds}`, or `{"now": date and time, "frozen": bool}`. Raises InvalidInputError."""
    advance, now, frozen = document.get("advance"), document.get("now"), document.get("frozen", False)
    if (advance is None) == (now is None):
        raise _fault_at("#", "needs either 'advance', in seconds, or 'now', a date and time")
    if not isinstance(frozen, bool):
        raise _fault_at("#/frozen", "must be true or false")
    if now is not None:
        if not isinstance(now, str):
            raise _fault_at("#/now", "must be a date and time as in RFC 3339, such as 2027-01-15T08:00:00Z")
        try:
            return instruments.ClockMove(now_us=milliseconds_of(now) * 1_000, frozen=frozen)
        except ValueError as error:
            raise _fault_at("#/now", str(error)) from error
    if "frozen" in document:
        raise _fault_at("#/frozen", "goes with 'now': a clock that is advanced goes on as it did")
    if isinstance(advance, bool) or not isinstance(advance, int | float) or not math.isfinite(advance):
        raise _fault_at("#/advance", "must be a number of seconds")
    if not 0 <= advance <= _MOST_SECONDS:
        raise _fault_at("#/advance", "must be from 0 to 316224000 seconds (ten years): set 'now' to go back")
    return instruments.ClockMove(advance_us=round(advance * 1_000_000))


def read_wait(query: Mapping[str, str]) -> float:
    """The seconds of `wait`, 300 at most. Raises InvalidInputError."""
    wait = query.get("wait", "0")
    if not _SECONDS.fullmatch(wait):
        raise InvalidInputError("The query parameter wait takes seconds, such as ?wait=5.")
    return min(float(wait), _LONGEST_WAIT_SECONDS)


def read_after(query: Mapping[str, str]) -> int:
    """The number of `after`. Raises InvalidInputError."""
    after = query.get("after", "0")
    if not _NUMBER.fullmatch(after):
        raise InvalidInputError("The query parameter after takes the number of a request, such as ?after=12.")
    return int(after)


def clock_fields(reading: instruments.ClockState) -> TestClockAnswer:
    """The clock after a move, and how much became due by it."""
    now_ms, frozen, swept, delivered = reading
    return {"now": rfc3339(now_ms), "frozen": frozen, "swept": swept, "delivered": delivered}


def _fault_at(pointer: str, detail: str) -> InvalidInputError:
    return InvalidInputError("The clock cannot be set.", [Fault(pointer, detail)])


def sent_fields(sent: instruments.Sent) -> SentMessageAnswer:
    """A message that left the server."""
    fields = {
        "id": sent.message_id,
        "channel": sent.channel,
        "at": rfc3339(sent.at_ms),
        "outcome": sent.outcome,
        "reason": sent.reason or None,
        "topic": sent.topic,
        "account": sent.text("account"),
        "url": sent.url,
        "token": sent.token,
        "title": sent.text("title"),
        "body": sent.text("body"),
        "headers": dict(sent.headers) or None,
    }
    there = {name: value for name, value in fields.items() if value is not None}
    return cast(SentMessageAnswer, {**there, "payload": sent.payload})


def request_fields(recorded: Recorded) -> TestRequestAnswer:
    """A request, with its contents."""
    exchange = recorded.exchange
    fields: TestRequestAnswer = {
        "number": recorded.change,
        "at": rfc3339(recorded.at_ms),
        "who": exchange.who,
        "method": exchange.method,
        "path": exchange.path,
        "route": exchange.route,
        "status": exchange.status,
        "milliseconds": exchange.milliseconds,
        "waited": exchange.waited_seconds,
        "summary": exchange.summary,
    }
    if exchange.request is not None:
        fields["request"] = _contents_fields(exchange.request)
    if exchange.answer is not None:
        fields["answer"] = _contents_fields(exchange.answer)
    return fields


def _contents_fields(contents: Contents) -> RecordedContentsAnswer:
    body = contents.body.decode(errors="replace")
    return {"headers": dict(contents.headers), "body": body, "bytes": contents.body_bytes}


Words: TypeAlias = Mapping[instruments.Where, frozenset[str] | None]
"""The answers that a rule may give, by place; None stands for any, and a place without an entry has none."""


class FaultShape(BaseModel, extra="forbid", frozen=True):
    """A rule as a test writes it. A mistyped member is refused: its rule would never strike."""

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


_FAULTS = TypeAdapter(Annotated[list[FaultShape], Field(max_length=instruments.MOST_FAULTS)])


_OF_V07 = "v0.7-"
"""Each of these routes stands for a request of generation 0.7, and has the name of another behind it."""

Routes: TypeAlias = Mapping[str, str]
"""The requests of routes, such as `POST /session/new`, by the names of the routes."""


def read_faults(document: Any, routes: Routes, words: Words) -> Sequence[instruments.FaultRule]:
    """The rules in a JSON array, by known routes and answers. Raises InvalidInputError with every fault."""
    try:
        shapes = _FAULTS.validate_python(document, strict=True)
    except ValidationError as error:
        raise _unreadable(map(_fault_in, error.errors())) from error
    named = {_without_names(request): name for name, request in routes.items()}
    rules = []
    for shape in shapes:
        route = shape.route and named.get(_without_names(shape.route), shape.route)
        fields = shape.model_dump() | {"where": instruments.Where(shape.where), "route": route}
        rules.append(instruments.FaultRule(**fields))
    wrong = []
    for place, rule in enumerate(rules):
        if rule.where is instruments.Where.REQUEST and rule.route is not None and rule.route not in routes:
            wrong.append(Fault(f"#/{place}/route", _unknown_route(rule.route, routes)))
        known = words.get(rule.where, frozenset())
        if rule.answer is not None and known is not None and rule.answer not in known:
            detail = "has no meaning at this place: use a status, a drop or a delay_ms"
            if known:
                detail = f"'{rule.answer}' is not known. {_near_or_all(rule.answer, known)}"
            wrong.append(Fault(f"#/{place}/answer", detail))
    if wrong:
        raise _unreadable(wrong)
    return rules


def _fault_in(error: Any) -> Fault:
    pointer = "#" + "".join(f"/{step}" for step in error["loc"])
    if error["type"] != "extra_forbidden":
        return Fault(pointer, str(error["msg"]).removeprefix("Value error, "))
    known = _near_or_all(str(error["loc"][-1]), FaultShape.model_fields)
    return Fault(pointer, f"is no member of a rule. {known}")


def _without_names(request: str) -> str:
    """The request with `{}` in the places of ids."""
    return re.sub(r"\{[^{}]*\}", "{}", request)


def _near_or_all(name: str, known: Collection[str]) -> str:
    near = near_words(name, known, 1)
    return f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}"


def _unknown_route(name: str, routes: Routes) -> str:
    near = near_words(name, routes, 1)
    if near:
        return f"'{name}' is not known. Did you mean {near[0]} ({routes[near[0]]})?"
    named = [(each, request) for each, request in sorted(routes.items()) if not each.startswith(_OF_V07)]
    known = ", ".join(f"{each} ({request})" for each, request in named)
    return f"'{name}' is not known. Known: {known}"


def _unreadable(faults: Iterable[Fault]) -> InvalidInputError:
    return InvalidInputError("The rules cannot be read, and those before stay in force.", tuple(faults))


def counted_fields(counted: instruments.CountedFault) -> CountedFaultAnswer:
    """A rule with its hits."""
    usual = instruments.FaultRule._field_defaults
    fields = {name: value for name, value in counted.rule._asdict().items() if value != usual.get(name)}
    return cast(CountedFaultAnswer, {**fields, "hits": counted.hits})
