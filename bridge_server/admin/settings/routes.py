"""The route of the settings in the admin API."""

from bridge_server.admin.rows import AdminRows
from bridge_server.admin.settings.handlers import SettingsHandlers
from bridge_server.web.routes import Route


def settings_routes(handlers: SettingsHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """`GET /admin/settings`."""
    return (rows.read("/admin/settings", "settings", handlers.settings),)
