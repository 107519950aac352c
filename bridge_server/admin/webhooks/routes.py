"""The route of a webhook's test in the admin API."""

from bridge_server.admin.rows import AdminRows
from bridge_server.admin.webhooks.handlers import WebhookTestHandlers
from bridge_server.web.routes import Route


def webhook_test_routes(handlers: WebhookTestHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """`POST /admin/webhooks/test`."""
    return (rows.write("POST", "/admin/webhooks/test", "test-webhook", handlers.send),)
