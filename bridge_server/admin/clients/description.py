"""The clients' routes of the admin API described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.clients import ORDERS
from bridge_server.web.description import (
    ABSENT,
    AnswerShape,
    Count,
    DescribedAnswer,
    Moment,
    Operation,
    Parameter,
    operation,
    page_parameters,
    text,
)

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


_operation = partial(operation, "Observation", needs_database=False)

CLIENT_OPERATIONS: Mapping[str, Operation] = {
    "clients": _operation(
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
    "client-me": _operation(
        "Show how this request came",
        "Asked through a proxy, it shows whether `trusted_proxies` is right.",
        DescribedAnswer(200, "The way of this request.", ClientArrivalAnswer),
    ),
    "client": _operation(
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
