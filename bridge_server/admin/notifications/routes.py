"""The routes of notifications in the admin API."""

from bridge_server.admin.notifications.handlers import NotificationHandlers
from bridge_server.admin.rows import ANY_ID, AdminRows
from bridge_server.web.routes import Route

_PROJECT = f"/admin/projects/{{project_id:{ANY_ID}}}"
_NOTIFICATIONS = f"{_PROJECT}/notifications"


def notification_routes(handlers: NotificationHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The notifications of a project, and sending another one."""
    return (
        rows.read(_NOTIFICATIONS, "notifications", handlers.notifications),
        rows.read(f"{_NOTIFICATIONS}/{{number:[0-9]{{1,18}}}}", "notification", handlers.notification),
        rows.write("POST", f"{_PROJECT}/notify", "operator-notify", handlers.notify),
    )
