"""The route of the figures."""

from bridge_server.admin.rows import AdminRows
from bridge_server.admin.stats.handlers import StatsHandlers
from bridge_server.web.routes import Route


def stats_routes(handlers: StatsHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The server at a glance."""
    return (rows.read("/admin/stats", "stats", handlers.stats),)
