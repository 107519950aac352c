"""Requests, clients, sessions, figures and settings described, beyond their rows."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from pydantic import WithJsonSchema

from bridge_server.admin.traffic_records import (
    NoTrafficError,
    RequestNotKeptError,
    TooManyFollowersError,
)
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.relay.models import CallNotFoundError, SessionNotFoundError
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
    count,
    done,
    number,
    operation,
    page_parameters,
    text,
)
from bridge_server.web.recorder import ORDERS

_operation = partial(operation, "Observation")
_without_database = partial(_operation, needs_database=False)


class ProcessAnswer(AnswerShape):
    """A process that the answer is made of; the URL is null for the process that answers.

    The fault says why the figures of a process are missing.
    """

    number: Count
    url: Annotated[str, text("http://10.0.0.5:8080")] | None
    fault: Annotated[str, text("did not answer within 2 s")] | None


PROCESS = Parameter(
    "process",
    "The number of one process, where several share a PostgreSQL database, or `own` for the process that "
    "answers; by default all together.",
    {"type": "string", "pattern": "^([0-9]{1,15}|own)$"},
)


# The record of requests.

_EVENT = 'id: 12\nevent: request\ndata: {"number": 7, "method": "GET", "path": "/info"}\n\n'


_FILTER = Parameter(
    "filter",
    "Words that must all apply: `status:4xx`, `who:wallet`, `is:waits`, `session:X`, a part of a path; a "
    "minus before a word excludes.",
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
    """A page of requests, newest first; with `since` what has changed after it, oldest first,
    without `next`.
    """

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


_TRAFFIC = {
    "traffic": _without_database(
        "List requests",
        "The last 2,000 requests that the server answered and sent, and requests that wait now, newest "
        "first. With `since` what has changed after that change, oldest first; with `wait` too, once there "
        "is something.",
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
    ),
    "traffic-stream": _without_database(
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
        extensions={"x-event-stream": True},
    ),
    "traffic-request": _without_database(
        "Show a request",
        "In test mode with its header fields and bodies.",
        DescribedAnswer(200, "The request.", KeptRequestAnswer),
        parameters=(
            Parameter("number", "The number of a request.", place="path", example="1"),
            PROCESS,
        ),
        problems=(NoTrafficError, RequestNotKeptError, InvalidInputError),
    ),
    "traffic-call": _operation(
        "Show the lifetime of a call",
        "Asked, told (a webhook and its outcome), fetched, answered, status read, expires.",
        DescribedAnswer(200, "The lifetime.", CallLifeAnswer),
        parameters=(PROCESS,),
        problems=(CallNotFoundError, InvalidInputError),
    ),
}


# Clients.

ClientAddress = Annotated[str, text("192.0.2.1")]


class ClientFiguresAnswer(AnswerShape):
    """The requests of an address, and its refusals by limit."""

    requests: Count
    refused: Count
    sessions: Count
    sockets: Count
    waits: Count
    bytes: Count
    refused_by: dict[str, Count]


class ListedClientAnswer(ClientFiguresAnswer):
    """A client address and its figures. IPv6 counts by /64."""

    address: ClientAddress
    waiting: Count


class HeaviestClientsAnswer(AnswerShape):
    """The heaviest clients, the heaviest first."""

    clients: list[ListedClientAnswer]
    next: None
    processes: list[ProcessAnswer] = ABSENT


class ClientBucketAnswer(AnswerShape):
    """The rest of a limit, and the time at which it is whole again; null if it is whole."""

    limit: Annotated[str, text("requests")]
    burst: Count
    remaining: Count
    full_at: Moment | None


class ClientDetailsAnswer(AnswerShape):
    """A client address: its figures, its open connections and sockets, and its limits."""

    address: ClientAddress
    exempt: bool
    last_hour: ClientFiguresAnswer
    since_start: ClientFiguresAnswer
    waiting: Count
    connections: Count
    open_sockets: Count
    buckets: list[ClientBucketAnswer]
    processes: list[ProcessAnswer] = ABSENT


class ClientArrivalAnswer(AnswerShape):
    """The way of this request: its peer, and the client address that it counts for."""

    peer: Annotated[str, text("127.0.0.1")]
    forwarded_for: ClientAddress | None
    trusted: bool
    address: ClientAddress
    exempt: bool


_CLIENTS = {
    "clients": _without_database(
        "List the heaviest clients",
        "The requests of each client address. The list is one page.",
        DescribedAnswer(200, "The clients.", HeaviestClientsAnswer),
        parameters=(
            Parameter("by", "The figure that orders the list.", {"enum": [*ORDERS], "default": "requests"}),
            Parameter(
                "last",
                "How far back the figures go, from `5m` to `1h`, or `start`.",
                {"type": "string", "pattern": "^([0-9]{1,4}[mh]|start)$", "default": "1h"},
            ),
            PROCESS,
            *page_parameters("Has no effect: the list is one page."),
        ),
    ),
    "client-me": _without_database(
        "Show how this request came",
        "Asked through a proxy, it shows whether `trusted_proxies` is right.",
        DescribedAnswer(200, "The way of this request.", ClientArrivalAnswer),
    ),
    "client": _without_database(
        "Show a client",
        "One address: its figures, its open connections and sockets, and the rest of its limits.",
        DescribedAnswer(200, "The client.", ClientDetailsAnswer),
        parameters=(
            PROCESS,
            Parameter("address", "The address of a client.", place="path", example="192.0.2.1"),
        ),
        problems=(InvalidInputError,),
    ),
}


# Sessions of the bridge.


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


_SESSIONS = {
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


# The server at a glance.

Bytes = Annotated[int, count(65_536)]


class MadeThingsAnswer(AnswerShape):
    """How many were made since the start, and in the last minute."""

    since_start: Count
    last_minute: Count


class MadeSessionsAnswer(MadeThingsAnswer):
    """How many sessions were opened, and how many live."""

    living: Count


class AnsweredRequestsAnswer(AnswerShape):
    """How many requests were answered, how many of them failed (5xx), and how many were refused (429)."""

    answered: Count
    failed: Count
    refused: Count


class OutboxFiguresAnswer(AnswerShape):
    """Messages that are owed and that were delivered."""

    due: Count
    dead: Count
    delivered: Count
    failed: Count


class DiskFiguresAnswer(AnswerShape):
    """Bytes of the database and its log, and free bytes of the disk."""

    database_bytes: Bytes
    log_bytes: Bytes
    free_bytes: Bytes


class OneServerFiguresAnswer(AnswerShape):
    """One process at a glance."""

    at: Moment
    up_seconds: Count
    sessions: MadeSessionsAnswer
    calls: MadeThingsAnswer
    notifications: MadeThingsAnswer
    waiting: Count
    connections: Count
    sockets: Count
    topics: Count
    streams: Count
    approvals: Count
    requests: AnsweredRequestsAnswer
    outbox: OutboxFiguresAnswer
    pushes: dict[str, dict[str, Count]]
    memory_bytes: Bytes
    disk: DiskFiguresAnswer
    clients: list[ListedClientAnswer]


class ProcessFiguresAnswer(ProcessAnswer):
    """The figures of one of several processes; null if it did not answer."""

    figures: OneServerFiguresAnswer | None


class ServerFiguresAnswer(OneServerFiguresAnswer):
    """The server at a glance: all its processes together, and each by itself if several share a database."""

    processes: list[ProcessFiguresAnswer] = ABSENT


_STATS = {
    "stats": _operation(
        "The server at a glance",
        "What lives, what waits, what was made, and the five clients with the most requests of "
        "the last hour.",
        DescribedAnswer(200, "The figures.", ServerFiguresAnswer),
        parameters=(PROCESS,),
        problems=(InvalidInputError,),
    ),
}


# Its settings.

SettingValue = Annotated[
    str | float | bool | None,
    WithJsonSchema({"type": ["string", "number", "boolean", "null"], "examples": [8080]}),
]


class ShownSettingAnswer(AnswerShape):
    """A setting: its value, its source, and whether the running server takes a new value on SIGHUP."""

    value: SettingValue
    origin: Annotated[str, text("default")]
    live: bool


class ReadinessAnswer(AnswerShape):
    """The parts of `/readyz`."""

    ready: bool
    failure: str | None
    troubles: list[str]


class SettingsReportAnswer(AnswerShape):
    """Every setting by name, and whether the server can do its work."""

    settings: dict[str, ShownSettingAnswer]
    ready: ReadinessAnswer


_SETTINGS = {
    "settings": _without_database(
        "Show the settings",
        "Every setting with its value and its source. A secret is `(set)` or null. Under `ready` are the "
        "parts of `/readyz`.",
        DescribedAnswer(200, "The settings.", SettingsReportAnswer),
    ),
}


OBSERVATION_OPERATIONS: Mapping[str, Operation] = {**_TRAFFIC, **_CLIENTS, **_SESSIONS, **_STATS, **_SETTINGS}
