"""The routes of clients."""

from bridge_server.admin.clients.handlers import ClientHandlers
from bridge_server.admin.rows import ANY_ID, AdminRows
from bridge_server.web.routes import Route


def client_routes(handlers: ClientHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The routes of the heaviest clients, of one client, and of the client that asks."""
    return (
        rows.read("/admin/clients", "clients", handlers.clients),
        rows.read("/admin/clients/me", "client-me", handlers.me),
        rows.read(f"/admin/clients/{{address:{ANY_ID}}}", "client", handlers.client),
    )
