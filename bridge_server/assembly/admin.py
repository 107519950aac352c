"""The admin API, for the bearer of `admin_token`."""

from bridge_server.admin.projects.handlers import ProjectHandlers
from bridge_server.admin.projects.routes import project_routes
from bridge_server.admin.rows import AdminRows
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room


def admin_room(foundation: Foundation, services: ProjectServices) -> Room:
    """The operator's endpoints; there are none without a token."""
    rows = admin_rows(foundation)
    if rows is None:
        return Room(name="admin")
    projects = ProjectHandlers(
        services.projects,
        services.subscriptions,
        services.device_states,
        services.account_limit,
    )
    return Room(name="admin", routes=project_routes(projects, rows))


def admin_rows(foundation: Foundation) -> AdminRows | None:
    """Makes the rows of the admin API; None without a token."""
    token = foundation.live.token("admin_token")
    return None if token is None else AdminRows(token, foundation.settings.notify_body_limit)
