"""The admin API described: the operations of all its subjects."""

from collections.abc import Mapping

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
from bridge_server.web.description import Operation

ADMIN_OPERATIONS: Mapping[str, Operation] = {
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
}
