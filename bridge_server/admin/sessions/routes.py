"""The routes of sessions."""

from bridge_server.admin.rows import ANY_ID, AdminRows
from bridge_server.admin.sessions.handlers import SessionHandlers
from bridge_server.web.routes import Route

_SESSION = f"/admin/sessions/{{handle:{ANY_ID}}}"


def session_routes(handlers: SessionHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The list, one session, and its end."""
    return (
        rows.read("/admin/sessions", "sessions", handlers.sessions),
        rows.read(_SESSION, "shown-session", handlers.session),
        rows.write("DELETE", _SESSION, "end-shown-session", handlers.end),
    )
