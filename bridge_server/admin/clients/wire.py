"""JSON of clients."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from bridge_server.admin.clients.service import Bucket, ClientDetails
from bridge_server.admin.neighbours import Reply, listed_processes
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339_or_none
from bridge_server.web.clients import By, Client, ClientFigures

_LAST = re.compile(r"([0-9]{1,4})(m|h)", re.ASCII)
_SECONDS = {"m": 60, "h": 3600}
_HOUR_SECONDS = 3600
_SINCE_START = "start"


def read_by(query: Mapping[str, str]) -> By:
    """The figure that the list is ordered by. Raises InvalidInputError."""
    asked = query.get("by", "requests")
    for by in get_args(By):
        if asked == by:
            found: By = by
            return found
    raise InvalidInputError(f"The query parameter by takes {', '.join(get_args(By))}.")


def read_last(query: Mapping[str, str]) -> str:
    """How far back the figures go, as it is written."""
    return query.get("last", "1h")


def read_last_seconds(query: Mapping[str, str]) -> int | None:
    """How far back the figures go, at most an hour; None: to the start. Raises InvalidInputError."""
    text = read_last(query)
    if text == _SINCE_START:
        return None
    found = _LAST.fullmatch(text)
    seconds = 0 if found is None else int(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _HOUR_SECONDS:
        raise InvalidInputError("The query parameter last takes 5m to 1h, or start.")
    return seconds


def list_fields(clients: Sequence[Client]) -> dict[str, Any]:
    """The heaviest clients, the heaviest first. They are one page."""
    return {"clients": [client_fields(each) for each in clients], "next": None}


def merged_list(
    own_number: int, own: dict[str, Any], replies: Sequence[Reply], by: By, limit: int
) -> dict[str, Any]:
    """The heaviest clients of all processes together."""
    lists = [own["clients"], *(each.fields["clients"] for each in replies if each.fields is not None)]
    clients = heaviest_fields([client for each in lists for client in each], by, limit)
    return {"clients": clients, "next": None, "processes": listed_processes(own_number, replies)}


def merged_details(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """A client: figures, connections and sockets of all processes together; its limits hold for all."""
    found = [own, *(each.fields for each in replies if each.fields is not None)]
    return {
        **own,
        **{name: _added([each[name] for each in found]) for name in ("last_hour", "since_start")},
        **{name: sum(each[name] for each in found) for name in ("waiting", "connections", "open_sockets")},
        "processes": listed_processes(own_number, replies),
    }


def heaviest_fields(clients: Sequence[dict[str, Any]], by: str, limit: int) -> list[dict[str, Any]]:
    """The heaviest of the clients that several processes have listed, each address once."""
    of_address: dict[str, list[dict[str, Any]]] = {}
    for client in clients:
        of_address.setdefault(client["address"], []).append(client)
    added = [{"address": address, **_added(each)} for address, each in of_address.items()]
    return sorted(added, key=lambda client: -int(client[by]))[:limit]


def _added(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of one client, added up."""
    total: dict[str, Any] = {}
    for figures in found:
        for name, value in figures.items():
            if isinstance(value, dict):
                total[name] = _added([total.get(name, {}), value])
            elif isinstance(value, int):
                total[name] = total.get(name, 0) + value
    return total


def client_fields(client: Client) -> dict[str, Any]:
    """A client and its figures."""
    return {"address": client.address, "waiting": client.waiting, **figures_fields(client.figures)}


def arrival_fields(
    peer: str, forwarded_for: str | None, is_trusted: bool, address: str, is_exempt: bool
) -> dict[str, Any]:
    """How a request has come: from which peer, and for which client it counts."""
    return {
        "peer": peer,
        "forwarded_for": forwarded_for,
        "trusted": is_trusted,
        "address": address,
        "exempt": is_exempt,
    }


def details_fields(details: ClientDetails) -> dict[str, Any]:
    """A client: its figures, its open connections and sockets, and its buckets."""
    return {
        "address": details.address,
        "exempt": details.is_exempt,
        "last_hour": figures_fields(details.last_hour),
        "since_start": figures_fields(details.since_start),
        "waiting": details.waiting,
        "connections": details.connections,
        "open_sockets": details.open_sockets,
        "buckets": [bucket_fields(each) for each in details.buckets],
    }


def figures_fields(figures: ClientFigures) -> dict[str, Any]:
    """Requests and refusals; the refusals by limit, the most frequent first."""
    ranked = sorted(figures.refused_by.items(), key=lambda item: -item[1])
    return {**asdict(figures), "refused_by": dict(ranked)}


def bucket_fields(bucket: Bucket) -> dict[str, Any]:
    """A token bucket: its tokens, and the time at which it is full again; null if it is full."""
    return {
        "limit": bucket.limit,
        "burst": bucket.burst,
        "remaining": bucket.remaining,
        "full_at": rfc3339_or_none(bucket.full_at_ms),
    }
