"""The sessions' routes of the admin API described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from bridge_server.admin.clients.description import PROCESS, ProcessAnswer
from bridge_server.admin.traffic.description import KeptRequestAnswer, NamedThingAnswer
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.relay.errors import SessionNotFoundError
from bridge_server.web.description import (
    ABSENT,
    AnswerShape,
    Count,
    DescribedAnswer,
    Moment,
    NextPage,
    Operation,
    done,
    operation,
    page_parameters,
    text,
)


class LivingSessionAnswer(AnswerShape):
    """A session. Fields that only requests show are null until a request has shown them."""

    handle: Annotated[str, text("s4Jd0cRkW1x2y3z4A5b6Cw")] | None
    id: Annotated[str, text("0192f7c8…")]
    generation: Literal["plain", "0.7"] | None
    dapp: Annotated[str, text("Example Shop")] | None
    approved: bool
    push: Annotated[str, text("fcm")] | None
    calls_waiting: Count
    created_at: Moment | None
    expires_at: Moment
    dapp_seen_at: Moment | None
    wallet_seen_at: Moment | None


class LivingSessionsAnswer(AnswerShape):
    """A page of sessions, newest first."""

    sessions: list[LivingSessionAnswer]
    next: NextPage | None
    processes: list[ProcessAnswer] = ABSENT


class SessionHappeningAnswer(AnswerShape):
    """Something that happened in a session, or will."""

    at: Moment
    event: Literal["opened", "asked", "answered", "expires"]
    call: NamedThingAnswer | None


class SessionStoryAnswer(LivingSessionAnswer):
    """A session, its timeline, and the requests about it that are still kept."""

    timeline: list[SessionHappeningAnswer]
    requests: list[KeptRequestAnswer]
    processes: list[ProcessAnswer] = ABSENT


_operation = partial(operation, "Observation")

SESSION_OPERATIONS: Mapping[str, Operation] = {
    "sessions": _operation(
        "List sessions",
        "Sessions that live, newest first. Ids are shortened, because a whole id is a capability.",
        DescribedAnswer(200, "A page.", LivingSessionsAnswer),
        parameters=(PROCESS, *page_parameters()),
    ),
    "shown-session": _operation(
        "Show a session",
        "A session with its timeline, and the requests about it that are still kept.",
        DescribedAnswer(200, "The session.", SessionStoryAnswer),
        parameters=(PROCESS,),
        problems=(SessionNotFoundError, InvalidInputError),
    ),
    "end-shown-session": _operation(
        "End a session",
        "It ends for both sides, with its calls.",
        *done("It has ended."),
        problems=(SessionNotFoundError,),
    ),
}
