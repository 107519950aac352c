"""The admin API, for the bearer of `admin_token`."""

from bridge_server.admin.accounts.handlers import AccountHandlers
from bridge_server.admin.accounts.routes import account_routes
from bridge_server.admin.approvals.handlers import ApprovalHandlers
from bridge_server.admin.approvals.routes import approval_routes
from bridge_server.admin.notifications.handlers import NotificationHandlers
from bridge_server.admin.notifications.routes import notification_routes
from bridge_server.admin.outbox.handlers import OutboxHandlers
from bridge_server.admin.outbox.routes import outbox_routes
from bridge_server.admin.projects.handlers import ProjectHandlers
from bridge_server.admin.projects.routes import project_routes
from bridge_server.admin.pushes.handlers import PushDeskHandlers
from bridge_server.admin.pushes.routes import push_desk_routes
from bridge_server.admin.rows import AdminRows, guard_of
from bridge_server.admin.settings.handlers import SettingsHandlers
from bridge_server.admin.settings.routes import settings_routes
from bridge_server.admin.wallet.handlers import WalletDeskHandlers
from bridge_server.admin.wallet.routes import wallet_desk_routes
from bridge_server.admin.webhooks.handlers import WebhookTestHandlers
from bridge_server.admin.webhooks.routes import webhook_test_routes
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.operator_desks import OperatorDesks
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room
from bridge_server.web.hosts import Hosts
from bridge_server.web.routes import Route
from bridge_server.web.turned_away import TurnedAway


def admin_room(foundation: Foundation, desks: OperatorDesks) -> Room:
    """The operator's endpoints; there are none without a token."""
    rows = admin_rows(foundation)
    return Room(name="admin", routes=() if rows is None else _routes(foundation, desks, rows))


def admin_rows(foundation: Foundation) -> AdminRows | None:
    """Makes the rows of the admin API; None without a token."""
    token, settings = foundation.live.token("admin_token"), foundation.settings
    if token is None:
        return None
    turned_away = TurnedAway(foundation.addresses, foundation.clock, "admin_refused", "admin_token")
    return AdminRows(
        token, settings.notify_body_limit, guard_of(Hosts(settings.operators_hosts)), turned_away.note
    )


def _routes(foundation: Foundation, desks: OperatorDesks, rows: AdminRows) -> tuple[Route, ...]:
    may_sign, limit = foundation.settings.admin_wallet, desks.projects.account_limit
    return (
        *project_routes(_project_handlers(desks.projects), rows),
        *notification_routes(NotificationHandlers(desks.history, desks.audiences), rows),
        *account_routes(AccountHandlers(desks.accounts, desks.inbox, limit), rows),
        *approval_routes(ApprovalHandlers(desks.approvals), rows, may_sign=may_sign),
        *wallet_desk_routes(WalletDeskHandlers(desks.wallet), rows, may_sign=may_sign),
        *outbox_routes(OutboxHandlers(desks.outbox, desks.attempts), rows),
        *push_desk_routes(PushDeskHandlers(desks.pushes), rows),
        *webhook_test_routes(WebhookTestHandlers(desks.webhook_tests), rows),
        *settings_routes(SettingsHandlers(desks.settings), rows),
    )


def _project_handlers(services: ProjectServices) -> ProjectHandlers:
    return ProjectHandlers(
        services.projects,
        services.subscriptions,
        services.device_states,
        services.account_limit,
    )
