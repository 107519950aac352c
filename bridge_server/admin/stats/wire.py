"""JSON of the figures, which the command `stats` prints too."""

from dataclasses import asdict
from typing import Any

from bridge_server.admin.clients.wire import client_fields
from bridge_server.admin.stats.service import CALL, NOTIFICATION, SESSION, Made, Stats
from bridge_server.kernel.instants import rfc3339

_OUTBOX = ("due", "dead", "delivered", "failed")


def stats_fields(stats: Stats) -> dict[str, Any]:
    """The server at a glance."""
    figures = stats.figures
    return {
        "at": rfc3339(stats.now_ms),
        "up_seconds": stats.up_seconds,
        "sessions": {"living": stats.sessions, **_made_fields(stats.made[SESSION])},
        "calls": _made_fields(stats.made[CALL]),
        "notifications": _made_fields(stats.made[NOTIFICATION]),
        "waiting": int(figures.get("waiting_clients", 0)),
        "connections": int(figures.get("connections", 0)),
        "sockets": int(figures.get("sockets", 0)),
        "topics": int(figures.get("socket_topics", 0)),
        "streams": int(figures.get("inbox_streams", 0)),
        "approvals": int(figures.get("wallet_approvals_waiting", 0)),
        "requests": {"answered": stats.requests, "failed": stats.failed, "refused": stats.refused},
        "outbox": {name: int(figures.get(f"outbox_{name}", 0)) for name in _OUTBOX},
        "pushes": {channel: dict(outcomes) for channel, outcomes in stats.pushes.items()},
        "memory_bytes": stats.memory_bytes,
        "disk": asdict(stats.disk),
        "clients": [client_fields(each) for each in stats.clients],
    }


def _made_fields(made: Made) -> dict[str, int]:
    return {"since_start": made.in_all, "last_minute": made.last_minute}
