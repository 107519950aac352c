"""JSON of the figures, which the command `stats` prints too."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bridge_server.admin.clients.wire import client_fields, heaviest_fields
from bridge_server.admin.neighbours import Reply
from bridge_server.admin.stats.service import CALL, NOTIFICATION, SESSION, Made, Stats
from bridge_server.kernel.instants import rfc3339

_OF_THE_DATABASE = frozenset({"living", "due", "dead", "disk", "at", "up_seconds"})
"""Members that are not added up: they are the database's, and the process that answers has just read them."""
_HEAVIEST = 5
_ATTEMPTS = ("delivered", "failed")


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
        "outbox": {
            "due": stats.stock.due,
            "dead": stats.stock.dead,
            **{name: int(figures.get(f"outbox_{name}", 0)) for name in _ATTEMPTS},
        },
        "pushes": {channel: dict(outcomes) for channel, outcomes in stats.pushes.items()},
        "memory_bytes": stats.memory_bytes,
        "disk": asdict(stats.disk),
        "clients": [client_fields(each) for each in stats.clients],
    }


def _made_fields(made: Made) -> dict[str, int]:
    return {"since_start": made.in_all, "last_minute": made.last_minute}


def merged_fields(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """The server at a glance, all its processes together and each by itself."""
    found = [own, *(each.fields for each in replies if each.fields is not None)]
    entries = [{"number": own_number, "url": None, "fault": None, "figures": own}]
    entries += [{**each.entry(), "figures": each.fields} for each in replies]
    listed = [client for each in found for client in each["clients"]]
    return {
        **_sum(found),
        "up_seconds": max(each["up_seconds"] for each in found),
        "clients": heaviest_fields(listed, "requests", _HEAVIEST),
        "processes": sorted(entries, key=lambda entry: int(entry["number"])),
    }


def _sum(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The members of all, added up where they count what each process does."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: _sum_of(name, [each[name] for each in found if name in each]) for name in names}


def _sum_of(name: str, values: Sequence[Any]) -> Any:
    first = values[0]
    if name in _OF_THE_DATABASE:
        return first
    if isinstance(first, dict):
        return _sum(values)
    return sum(values) if isinstance(first, int) else first
