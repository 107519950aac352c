"""The operations that the rooms describe, by the names of their rows."""

from collections.abc import Mapping
from types import MappingProxyType

from bridge_server.admin.accounts.description import ACCOUNT_OPERATIONS
from bridge_server.admin.approvals.description import APPROVAL_OPERATIONS
from bridge_server.admin.clients.description import CLIENT_OPERATIONS
from bridge_server.admin.notifications.description import NOTIFICATION_OPERATIONS
from bridge_server.admin.outbox.description import OUTBOX_OPERATIONS
from bridge_server.admin.projects.description import PROJECT_OPERATIONS
from bridge_server.admin.pushes.description import PUSH_DESK_OPERATIONS
from bridge_server.admin.sessions.description import SESSION_OPERATIONS
from bridge_server.admin.settings.description import SETTINGS_OPERATIONS
from bridge_server.admin.stats.description import STATS_OPERATIONS
from bridge_server.admin.traffic.description import TRAFFIC_OPERATIONS
from bridge_server.admin.wallet.description import WALLET_OPERATIONS
from bridge_server.admin.webhooks.description import WEBHOOK_OPERATIONS
from bridge_server.description.service import SERVICE_OPERATIONS
from bridge_server.inbox.description import INBOX_OPERATIONS
from bridge_server.notify.description import NOTIFY_OPERATIONS
from bridge_server.pubsub.description import PUBSUB_OPERATIONS
from bridge_server.push.description import PUSH_OPERATIONS
from bridge_server.relay.description import RELAY_OPERATIONS
from bridge_server.testmode.description import TESTMODE_OPERATIONS
from bridge_server.wallet.rpc.description import RPC_OPERATIONS
from bridge_server.web.description import Operation
from bridge_server.web.routes import Route

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **RELAY_OPERATIONS,
        **PUBSUB_OPERATIONS,
        **NOTIFY_OPERATIONS,
        **INBOX_OPERATIONS,
        **PUSH_OPERATIONS,
        **RPC_OPERATIONS,
        **PROJECT_OPERATIONS,
        **NOTIFICATION_OPERATIONS,
        **ACCOUNT_OPERATIONS,
        **APPROVAL_OPERATIONS,
        **WALLET_OPERATIONS,
        **OUTBOX_OPERATIONS,
        **PUSH_DESK_OPERATIONS,
        **WEBHOOK_OPERATIONS,
        **TRAFFIC_OPERATIONS,
        **CLIENT_OPERATIONS,
        **SESSION_OPERATIONS,
        **STATS_OPERATIONS,
        **SETTINGS_OPERATIONS,
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
