"""The routes of the record of requests."""

from bridge_server.admin.rows import ANY_ID, AdminRows
from bridge_server.admin.traffic.handlers import TrafficHandlers
from bridge_server.web.routes import Route

_TRAFFIC = "/admin/traffic"


def traffic_routes(handlers: TrafficHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The list, one request, the stream, and the lifetime of a call."""
    return (
        rows.read(_TRAFFIC, "traffic", handlers.requests, waits=True),
        rows.read(f"{_TRAFFIC}/stream", "traffic-stream", handlers.stream),
        rows.read(f"{_TRAFFIC}/{{number:[0-9]{{1,15}}}}", "traffic-request", handlers.one),
        rows.read(f"{_TRAFFIC}/calls/{{call:{ANY_ID}}}", "traffic-call", handlers.call),
    )
