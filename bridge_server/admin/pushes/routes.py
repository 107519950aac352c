"""The pushes' routes in the admin API."""

from bridge_server.admin.pushes.handlers import PushDeskHandlers
from bridge_server.admin.rows import AdminRows
from bridge_server.web.routes import Route


def push_desk_routes(handlers: PushDeskHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """A test and a preview."""
    return (
        rows.write("POST", "/admin/pushes/test", "test-push", handlers.test),
        rows.read("/admin/pushes/preview", "preview-push", handlers.preview),
    )
