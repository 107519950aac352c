"""The operations that the rooms describe, by the names of their rows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bridge_server.admin.observation_description import OBSERVATION_OPERATIONS
from bridge_server.admin.outbox_description import OUTBOX_OPERATIONS
from bridge_server.admin.projects_description import PROJECT_OPERATIONS
from bridge_server.admin.wallet_description import WALLET_OPERATIONS
from bridge_server.inbox.description import INBOX_OPERATIONS
from bridge_server.notify.description import NOTIFY_OPERATIONS
from bridge_server.pubsub.description import PUBSUB_OPERATIONS
from bridge_server.push.description import PUSH_OPERATIONS
from bridge_server.relay.description import RELAY_OPERATIONS
from bridge_server.testmode.description import TESTMODE_OPERATIONS
from bridge_server.wallet.rpc.description import RPC_OPERATIONS
from bridge_server.web.description import TEXT, DescribedAnswer, Operation
from bridge_server.web.routes import Route

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


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **RELAY_OPERATIONS,
        **PUBSUB_OPERATIONS,
        **NOTIFY_OPERATIONS,
        **INBOX_OPERATIONS,
        **PUSH_OPERATIONS,
        **RPC_OPERATIONS,
        **PROJECT_OPERATIONS,
        **WALLET_OPERATIONS,
        **OUTBOX_OPERATIONS,
        **OBSERVATION_OPERATIONS,
        **TESTMODE_OPERATIONS,
        **SERVICE_OPERATIONS,
    }
)
"""Every operation. Rows of pages for people have none."""

_PAGES = frozenset({"console", "reader"})
"""The callers of rows that answer pages."""


def described(row: Route) -> Operation | None:
    """The operation of a row; None for a row that answers pages for people."""
    return None if row.who in _PAGES else OPERATIONS[row.name]
