"""The operations that the rooms describe, by the names of their rows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bridge_server.inbox.description import (
    INBOX_OPERATIONS,
    PAGE_QUERY,
    InboxPageAnswer,
    ReadNotificationsAnswer,
)
from bridge_server.inbox.wire import ReadShape
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.notify.description import (
    AUDIENCE_EXAMPLE,
    DRY_RUN,
    NOTIFY_OPERATIONS,
    AudienceOutcomeAnswer,
)
from bridge_server.notify.wire import AudienceNotifyShape
from bridge_server.projects.models import ProjectNotFoundError
from bridge_server.pubsub.description import PUBSUB_OPERATIONS
from bridge_server.push.description import PUSH_OPERATIONS
from bridge_server.relay.description import RELAY_OPERATIONS
from bridge_server.wallet.rpc.description import RPC_OPERATIONS
from bridge_server.web.routes import Route
from bridge_server.web.shapes import TEXT, DescribedAnswer, Operation, operation

_TAG = "Operation"

SERVICE_OPERATIONS = {
    "livez": Operation(
        tag=_TAG,
        summary="Is the process alive",
        text="Answers as long as the process runs, whatever its database does.",
        answers=(DescribedAnswer(200, "It runs.", str, TEXT),),
        needs_database=False,
    ),
    "readyz": Operation(
        tag=_TAG,
        summary="Can the server do its work",
        text="Reads and writes the database. Each line after the first names a trouble that lasts until an "
        "operator mends it; the status stays 200.",
        answers=(DescribedAnswer(200, "`ready`, and a line `but ...` for each trouble.", str, TEXT),),
    ),
    "metrics": Operation(
        tag=_TAG,
        summary="Figures for Prometheus",
        text="All figures in the Prometheus text format. The route exists if `metrics_token` is set.",
        answers=(DescribedAnswer(200, "The figures.", str, TEXT),),
        needs_database=False,
    ),
    "openapi": Operation(
        tag=_TAG,
        summary="This description",
        text="The routes of this server in OpenAPI 3.1, as its settings have them. `bridge-server openapi` "
        "prints those of a server that has everything turned on.",
        answers=(
            DescribedAnswer(200, "The document.", dict[str, Any]),
            DescribedAnswer(304, "It has not changed since the ETag of If-None-Match."),
        ),
        needs_database=False,
    ),
}


# Operations of the operator whose shapes are those of accounts and projects.

OPERATOR_OPERATIONS = {
    "operator-notify": operation(
        "Projects",
        "Send a notification to an audience",
        '`audience` is `"all"`, `{"type": ...}` or `{"accounts": [...]}`. A call sends to at most 500 '
        "accounts; it is repeated with `after` set to `next` until that is null. For an audience without "
        "accounts a `notification_id` is required, with which nobody is sent to twice.",
        DescribedAnswer(200, "The outcome for each account.", AudienceOutcomeAnswer),
        body=AudienceNotifyShape,
        body_example=AUDIENCE_EXAMPLE,
        parameters=(DRY_RUN,),
        problems=(ProjectNotFoundError,),
    ),
    "account-inbox": operation(
        "Accounts",
        "What an account sees",
        "Its notifications, as its inbox answers them.",
        DescribedAnswer(200, "A page.", InboxPageAnswer),
        parameters=PAGE_QUERY,
    ),
    "account-mark-read": operation(
        "Accounts",
        "Mark notifications as read for an account",
        "They count as bulk-marked, and not as read by the user.",
        DescribedAnswer(200, "How many were unread before.", ReadNotificationsAnswer),
        body=ReadShape,
        body_example={"ids": ["42"]},
        problems=(InvalidInputError,),
    ),
}


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **RELAY_OPERATIONS,
        **PUBSUB_OPERATIONS,
        **NOTIFY_OPERATIONS,
        **INBOX_OPERATIONS,
        **PUSH_OPERATIONS,
        **RPC_OPERATIONS,
        **OPERATOR_OPERATIONS,
        **SERVICE_OPERATIONS,
    }
)
"""The operations of rows that do not describe themselves. Rows of pages for people have none."""

_PAGES = frozenset({"console", "reader"})
"""The callers of rows that answer pages."""


def described(row: Route) -> Operation | None:
    """The operation of a row; None for a row that answers pages for people."""
    if row.who in _PAGES:
        return None
    found: Operation = OPERATIONS[row.name] if row.about is None else row.about()
    return found
