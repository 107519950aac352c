"""The admin API, for the bearer of `admin_token`."""

from bridge_server.admin.approvals.handlers import ApprovalHandlers
from bridge_server.admin.approvals.routes import approval_routes
from bridge_server.admin.approvals.service import ApprovalDesk
from bridge_server.admin.outbox.handlers import OutboxHandlers
from bridge_server.admin.outbox.routes import outbox_routes
from bridge_server.admin.outbox.service import OutboxDesk
from bridge_server.admin.projects.handlers import ProjectHandlers
from bridge_server.admin.projects.routes import project_routes
from bridge_server.admin.rows import AdminRows, guard_of
from bridge_server.admin.settings.handlers import SettingsHandlers
from bridge_server.admin.settings.routes import settings_routes
from bridge_server.admin.settings.service import SettingsDesk
from bridge_server.admin.wallet.handlers import WalletDeskHandlers
from bridge_server.admin.wallet.routes import wallet_desk_routes
from bridge_server.admin.wallet.service import WalletDesk
from bridge_server.admin.webhooks.handlers import WebhookTestHandlers
from bridge_server.admin.webhooks.routes import webhook_test_routes
from bridge_server.admin.webhooks.service import WebhookTests
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room
from bridge_server.assembly.wallet import AssembledWallet
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.message_store import MessageStore
from bridge_server.wallet.approval_store import ApprovalStore
from bridge_server.wallet.transactions.listing_store import TransactionListing
from bridge_server.web.health import Readiness
from bridge_server.web.hosts import Hosts
from bridge_server.web.routes import Route
from bridge_server.web.turned_away import TurnedAway


def admin_room(
    foundation: Foundation,
    projects: ProjectServices,
    wallet: AssembledWallet,
    dispatcher: Dispatcher,
    readiness: Readiness,
) -> Room:
    """The operator's endpoints; there are none without a token."""
    rows = admin_rows(foundation)
    if rows is None:
        return Room(name="admin")
    return Room(
        name="admin",
        routes=(
            *_project_rows(projects, rows),
            *_wallet_rows(foundation, wallet, rows),
            *_outbox_rows(foundation, dispatcher, rows),
            *settings_routes(SettingsHandlers(SettingsDesk(foundation.live.shown, readiness)), rows),
        ),
    )


def admin_rows(foundation: Foundation) -> AdminRows | None:
    """Makes the rows of the admin API; None without a token."""
    token, settings = foundation.live.token("admin_token"), foundation.settings
    if token is None:
        return None
    turned_away = TurnedAway(foundation.addresses, foundation.clock, "admin_refused", "admin_token")
    return AdminRows(
        token, settings.notify_body_limit, guard_of(Hosts(settings.operators_hosts)), turned_away.note
    )


def _project_rows(services: ProjectServices, rows: AdminRows) -> tuple[Route, ...]:
    handlers = ProjectHandlers(
        services.projects,
        services.subscriptions,
        services.device_states,
        services.account_limit,
    )
    return project_routes(handlers, rows)


def _wallet_rows(foundation: Foundation, wallet: AssembledWallet, rows: AdminRows) -> tuple[Route, ...]:
    settings, database = foundation.settings, foundation.database
    approvals = ApprovalDesk(ApprovalStore(database), wallet.approvals, foundation.clock)
    desk = WalletDesk(wallet.accounts, TransactionListing(database), settings.audit_file)
    return (
        *approval_routes(ApprovalHandlers(approvals), rows, may_sign=settings.admin_wallet),
        *wallet_desk_routes(WalletDeskHandlers(desk), rows, may_sign=settings.admin_wallet),
    )


def _outbox_rows(foundation: Foundation, dispatcher: Dispatcher, rows: AdminRows) -> tuple[Route, ...]:
    desk = OutboxDesk(MessageStore(foundation.database), dispatcher, foundation.clock)
    tests = WebhookTests(foundation.webhook_sender, foundation.clock, foundation.ids, foundation.stopping)
    return (
        *outbox_routes(OutboxHandlers(desk, foundation.webhooks.headers), rows),
        *webhook_test_routes(WebhookTestHandlers(tests), rows),
    )
