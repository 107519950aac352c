"""The admin API, for the bearer of `admin_token`."""

from bridge_server.admin.accounts.handlers import AccountHandlers
from bridge_server.admin.accounts.routes import account_routes
from bridge_server.admin.accounts.service import AccountViews
from bridge_server.admin.notifications.handlers import NotificationHandlers
from bridge_server.admin.notifications.routes import notification_routes
from bridge_server.admin.projects.handlers import ProjectHandlers
from bridge_server.admin.projects.routes import project_routes
from bridge_server.admin.rows import AdminRows
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room
from bridge_server.inbox.reading import InboxReads
from bridge_server.notify.audience_store import AudienceStore
from bridge_server.notify.audiences import Audiences
from bridge_server.notify.history_store import HistoryStore
from bridge_server.notify.service import Notifications
from bridge_server.web.routes import Route


def admin_room(
    foundation: Foundation, services: ProjectServices, notifications: Notifications, inbox: InboxReads
) -> Room:
    """The operator's endpoints; there are none without a token."""
    token = foundation.live.token("admin_token")
    if token is None:
        return Room(name="admin")
    rows = AdminRows(token, foundation.settings.notify_body_limit)
    return Room(
        name="admin",
        routes=(
            *_project_routes(services, rows),
            *_notification_routes(foundation, notifications, rows),
            *_account_routes(foundation, services, inbox, rows),
        ),
    )


def _project_routes(services: ProjectServices, rows: AdminRows) -> tuple[Route, ...]:
    handlers = ProjectHandlers(
        services.projects,
        services.subscriptions,
        services.device_states,
        services.account_limit,
    )
    return project_routes(handlers, rows)


def _notification_routes(
    foundation: Foundation, notifications: Notifications, rows: AdminRows
) -> tuple[Route, ...]:
    audiences = Audiences(AudienceStore(foundation.database), notifications)
    return notification_routes(NotificationHandlers(HistoryStore(foundation.database), audiences), rows)


def _account_routes(
    foundation: Foundation, services: ProjectServices, inbox: InboxReads, rows: AdminRows
) -> tuple[Route, ...]:
    views = AccountViews(
        services.projects,
        services.subscriptions,
        HistoryStore(foundation.database),
        services.device_states,
        foundation.clock,
        services.account_limit,
    )
    return account_routes(AccountHandlers(views, inbox, services.account_limit), rows)
