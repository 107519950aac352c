"""The routes of the record of requests described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from bridge_server.admin.clients.description import PROCESS, ProcessAnswer
from bridge_server.admin.traffic.errors import NoTrafficError, RequestNotKeptError, TooManyFollowersError
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.relay.errors import CallNotFoundError
from bridge_server.web.description import (
    ABSENT,
    EVENTS,
    AnswerShape,
    Count,
    DescribedAnswer,
    Milliseconds,
    Moment,
    NextPage,
    Operation,
    Parameter,
    number,
    operation,
    page_parameters,
    text,
)

_EVENT = 'id: 12\nevent: request\ndata: {"number": 7, "method": "GET", "path": "/info"}\n\n'
_FILTER = Parameter(
    "filter",
    "Words that must all apply: `status:4xx`, `who:wallet`, `is:waits`, `session:X`, a part of a path; a "
    "minus "
    "before a word excludes.",
    example="-is:waits",
)

_SINCE = Parameter(
    "since",
    "The last change that is known: `last` of an earlier answer, or the id of an event. Of several processes "
    "it names one change each.",
)

Seconds = Annotated[float, number(0, minimum=0)]


class NamedThingAnswer(AnswerShape):
    """A session or a call: the beginning of its id, and its handle in the paths of the admin API."""

    id: Annotated[str, text("0192f7c8…")]
    handle: Annotated[str, text("s4Jd0cRkW1x2y3z4A5b6Cw")] | None


class KeptContentsAnswer(AnswerShape):
    """Header fields without tokens, and the first 16 KiB of a body. Only test mode keeps them."""

    headers: dict[str, str]
    body: str
    bytes: Count


class KeptRequestAnswer(AnswerShape):
    """A request. Its status is null while it waits."""

    number: Count
    change: Count
    at: Moment
    who: Annotated[str, text("wallet")]
    method: Annotated[str, text("GET")]
    path: Annotated[str, text("/session/0192f7c8…/calls")]
    route: Annotated[str, text("calls")]
    status: Count | None
    milliseconds: Milliseconds | None
    waits: Seconds | None
    waited: Seconds
    gist: str
    session: NamedThingAnswer | None
    call: NamedThingAnswer | None
    process: Count = ABSENT
    request: KeptContentsAnswer = ABSENT
    answer: KeptContentsAnswer = ABSENT


class KeptRequestsAnswer(AnswerShape):
    """A page of requests, newest first; with `since` what has changed after it, oldest first, without "
    "`next`."""

    requests: list[KeptRequestAnswer]
    last: Count | Annotated[str, text("1:12,2:7")]
    next: NextPage | None = ABSENT
    processes: list[ProcessAnswer] = ABSENT


class CallStepAnswer(AnswerShape):
    """A step of a call, with the request that it was, if that is still kept."""

    step: Literal["asked", "told", "fetched", "answered", "status read", "expires"]
    at: Moment | None
    outcome: str | None
    request: KeptRequestAnswer | None


class CallLifeAnswer(AnswerShape):
    """The lifetime of a call, step by step."""

    call: NamedThingAnswer
    session: NamedThingAnswer | None
    state: Literal["waiting", "answered", "gone"]
    expires_at: Moment | None
    steps: list[CallStepAnswer]
    processes: list[ProcessAnswer] = ABSENT


_operation = partial(operation, "Observation")

TRAFFIC_OPERATIONS: Mapping[str, Operation] = {
    "traffic": _operation(
        "List requests",
        "The last 2,000 requests that the server answered and sent, and requests that wait now, newest "
        "first. With "
        "`since` what has changed after that change, oldest first; with `wait` too, once there is something.",
        DescribedAnswer(200, "The requests.", KeptRequestsAnswer),
        parameters=(
            _FILTER,
            _SINCE,
            Parameter(
                "wait", "With `since`: up to so many seconds, 25 at most.", {"type": "number", "minimum": 0}
            ),
            PROCESS,
            *page_parameters(),
        ),
        problems=(NoTrafficError,),
        needs_database=False,
    ),
    "traffic-stream": _operation(
        "Receive requests as they come",
        "Server-sent events `request`, and `skipped` with the number of changes that were left out.",
        DescribedAnswer(
            200, "The stream, which does not end by itself.", Annotated[str, text(_EVENT)], EVENTS
        ),
        parameters=(
            _FILTER,
            _SINCE,
            PROCESS,
            Parameter("Last-Event-ID", "The id of the last event that was received.", place="header"),
        ),
        problems=(NoTrafficError, TooManyFollowersError, InvalidInputError),
        needs_database=False,
        extensions={"x-event-stream": True},
    ),
    "traffic-request": _operation(
        "Show a request",
        "In test mode with its header fields and bodies.",
        DescribedAnswer(200, "The request.", KeptRequestAnswer),
        parameters=(
            Parameter("number", "The number of a request.", place="path", example="1"),
            PROCESS,
        ),
        problems=(NoTrafficError, RequestNotKeptError, InvalidInputError),
        needs_database=False,
    ),
    "traffic-call": _operation(
        "Show the lifetime of a call",
        "Asked, told (a webhook and its outcome), fetched, answered, status read, expires.",
        DescribedAnswer(200, "The lifetime.", CallLifeAnswer),
        parameters=(PROCESS,),
        problems=(CallNotFoundError, InvalidInputError),
    ),
}
