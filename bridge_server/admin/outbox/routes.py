"""The outbox's routes in the admin API."""

from bridge_server.admin.outbox.handlers import OutboxHandlers
from bridge_server.admin.rows import AdminRows
from bridge_server.web.routes import Route

_OUTBOX = "/admin/outbox"
_MESSAGE = f"{_OUTBOX}/{{id:[0-9]{{1,18}}-[^/]{{1,600}}}}"


def outbox_routes(handlers: OutboxHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """Messages one by one, and the dead letters of a destination."""
    read, write = rows.read, rows.write
    return (
        read(_OUTBOX, "outbox", handlers.messages),
        write("POST", f"{_OUTBOX}/retry-dead", "retry-dead-messages", handlers.retry_dead),
        write("POST", f"{_OUTBOX}/drop-dead", "drop-dead-messages", handlers.drop_dead),
        read(f"{_OUTBOX}/attempts", "outbox-attempts", handlers.attempts),
        read(f"{_OUTBOX}/attempts/{{number:[^/]{{1,128}}}}", "outbox-attempt", handlers.attempt),
        read(_MESSAGE, "outbox-message", handlers.message),
        write("DELETE", _MESSAGE, "drop-message", handlers.drop),
        write("POST", f"{_MESSAGE}/retry", "retry-message", handlers.retry),
    )
