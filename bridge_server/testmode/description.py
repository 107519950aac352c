"""The control routes in OpenAPI: texts and shapes that their rows do not have (docs/test.md)."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import WithJsonSchema

from bridge_server.testmode.models import Where
from bridge_server.testmode.wire import FaultShape
from bridge_server.web.shapes import (
    ABSENT,
    AnswerShape,
    Count,
    DescribedAnswer,
    Milliseconds,
    Moment,
    Operation,
    Parameter,
    operation,
    text,
)

_TAG = "Test mode"


class ResetServerAnswer(AnswerShape):
    """The clock of a server that was reset."""

    now: Moment


class TestClockAnswer(AnswerShape):
    """The clock, and the effects of a move: rows that were swept away, messages that were delivered."""

    __test__ = False

    now: Moment
    frozen: bool
    swept: Count
    delivered: Count


class ClockMoveShape(AnswerShape):
    """Either `advance`, or `now` with or without `frozen`."""

    advance: Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 316_224_000})] = (
        ABSENT
    )
    now: Moment = ABSENT
    frozen: bool = ABSENT


class CountedFaultAnswer(AnswerShape):
    """A rule, and how often it has struck."""

    where: Where
    route: str = ABSENT
    status: int = ABSENT
    retry_after: int = ABSENT
    answer: str = ABSENT
    delay_ms: int = ABSENT
    drop: bool = ABSENT
    after: int = ABSENT
    times: int = ABSENT
    hits: Count


class OrderedFaultsAnswer(AnswerShape):
    """The rules in force, in their order."""

    faults: list[CountedFaultAnswer]


class SentMessageAnswer(AnswerShape):
    """A message that an attempt to deliver was made for."""

    id: Annotated[str, text("msg_0192f7c8")]
    channel: Annotated[str, text("webhook")]
    at: Moment
    outcome: Annotated[str, text("delivered")]
    reason: str = ABSENT
    topic: str = ABSENT
    account: str = ABSENT
    url: str = ABSENT
    token: str = ABSENT
    title: str = ABSENT
    body: str = ABSENT
    headers: dict[str, str] = ABSENT
    payload: Any


class SentMessagesAnswer(AnswerShape):
    """The last attempts, oldest first."""

    sent: list[SentMessageAnswer]


class ForgottenMessagesAnswer(AnswerShape):
    """The number of messages that were forgotten."""

    deleted: Count


class RecordedContentsAnswer(AnswerShape):
    """Header fields without tokens, and the first 16 KiB of a body."""

    headers: dict[str, str]
    body: str
    bytes: Count


class TestRequestAnswer(AnswerShape):
    """A request, and its answer if there was one."""

    __test__ = False

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
    request: RecordedContentsAnswer = ABSENT
    answer: RecordedContentsAnswer = ABSENT


class TestTrafficAnswer(AnswerShape):
    """The last requests, oldest first, and the number of the newest."""

    __test__ = False

    requests: list[TestRequestAnswer]
    last: Count


_WAIT = Parameter(
    "wait", "Waits up to so many seconds for one.", {"type": "number", "minimum": 0, "maximum": 300}
)

_operation = partial(operation, _TAG)

TESTMODE_OPERATIONS: Mapping[str, Operation] = {
    "test-reset": _operation(
        "Reset the server",
        "Empties every table and all that is kept in memory, ends what waits, and sets the clock right.",
        DescribedAnswer(200, "It is as new.", ResetServerAnswer),
    ),
    "test-clock": _operation(
        "Read the clock",
        "The time that the server goes by, and whether it is frozen.",
        DescribedAnswer(200, "The clock.", TestClockAnswer),
        needs_database=False,
    ),
    "test-move-clock": _operation(
        "Move the clock",
        "Lets seconds pass, or sets the clock. The answer comes when what became due is done.",
        DescribedAnswer(200, "The clock.", TestClockAnswer),
        body=ClockMoveShape,
        body_example={"advance": 60},
    ),
    "test-faults": _operation(
        "List faults",
        "The rules in force, with their hits.",
        DescribedAnswer(200, "The rules.", OrderedFaultsAnswer),
        needs_database=False,
    ),
    "test-replace-faults": _operation(
        "Order faults",
        "Replaces all rules. The first that applies to an attempt strikes it. A rule that cannot be read is "
        "a 400 that points at it, and changes nothing.",
        DescribedAnswer(200, "The rules.", OrderedFaultsAnswer),
        body=list[FaultShape],
        body_example=[{"where": "webhook", "status": 503, "times": 2}],
        needs_database=False,
    ),
    "test-sent": _operation(
        "List what was sent",
        "The last 2,000 attempts to deliver, oldest first.",
        DescribedAnswer(200, "The attempts.", SentMessagesAnswer),
        parameters=(
            Parameter(
                "channel",
                "Only of this channel.",
                {"enum": ["webhook", "webhook-push", "fcm", "apns", "webpush"]},
            ),
            Parameter("topic", "Only about this topic or session."),
            Parameter("account", "Only for this account, or its address."),
            _WAIT,
        ),
        needs_database=False,
    ),
    "test-forget-sent": _operation(
        "Forget what was sent",
        "Empties the list of attempts.",
        DescribedAnswer(200, "How many there were.", ForgottenMessagesAnswer),
        needs_database=False,
    ),
    "test-traffic": _operation(
        "List requests",
        "The last 2,000 requests with their contents, oldest first.",
        DescribedAnswer(200, "The requests.", TestTrafficAnswer),
        parameters=(
            Parameter(
                "after", "Only requests after the one of this number.", {"type": "integer", "minimum": 0}
            ),
            _WAIT,
        ),
        needs_database=False,
    ),
}
