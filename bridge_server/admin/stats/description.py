"""The route of the figures described."""

from collections.abc import Mapping
from typing import Annotated

from bridge_server.admin.clients.description import PROCESS, ListedClientAnswer, ProcessAnswer
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.description import (
    ABSENT,
    AnswerShape,
    Count,
    DescribedAnswer,
    Moment,
    Operation,
    count,
)

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


STATS_OPERATIONS: Mapping[str, Operation] = {
    "stats": Operation(
        tag="Observation",
        summary="The server at a glance",
        text="What lives, what waits, what was made, and the five clients with the most requests of the "
        "last hour.",
        answers=(DescribedAnswer(200, "The figures.", ServerFiguresAnswer),),
        parameters=(PROCESS,),
        problems=(InvalidInputError,),
    ),
}
