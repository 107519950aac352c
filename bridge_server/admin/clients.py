"""Clients by address: requests, refusals, and the rest of their limits; the heaviest clients first."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args
from urllib.parse import quote

from aiohttp import web

from bridge_server.admin.other_processes import (
    Fields,
    Neighbours,
    Question,
    Reply,
    listed_processes,
    of_all,
    wanted_process,
)
from bridge_server.admin.rows import ANY_ID, AdminRows, fields_answer, wanted_page
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.fields import parse_ip_address
from bridge_server.kernel.instants import rfc3339_or_none
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.web.addresses import UNKNOWN, ClientAddresses
from bridge_server.web.limits import Charge, TokenBuckets
from bridge_server.web.open_connections import Connections
from bridge_server.web.recorder import By, Client, ClientFigures, Clients
from bridge_server.web.routes import Route

_HOUR_SECONDS = 3600

_LAST = re.compile(r"([0-9]{1,4})(m|h)", re.ASCII)
_SECONDS = {"m": 60, "h": 3600}
_SINCE_START = "start"
_CLIENTS = "/admin/clients"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket of a client; it is full at `full_at_ms`, None: now."""

    limit: str
    burst: int
    remaining: int
    full_at_ms: int | None


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """A client with its figures, its open connections and sockets, and its buckets."""

    address: str
    is_exempt: bool
    last_hour: ClientFigures
    since_start: ClientFigures
    waiting: int
    connections: int
    open_sockets: int
    buckets: Sequence[Bucket]


class ClientViews:
    """Looks clients up. `limits` are the limits per client address, `open_sockets` counts them by address."""

    def __init__(
        self,
        clients: Clients,
        addresses: ClientAddresses,
        connections: Connections,
        quotas: TokenBuckets,
        clock: Clock,
        limits: tuple[Limit, ...],
        open_sockets: Counter[str],
    ) -> None:
        self._clients = clients
        self._addresses = addresses
        self._connections = connections
        self._quotas = quotas
        self._clock = clock
        self._limits = limits
        self._open_sockets = open_sockets

    def heaviest(self, by: By, limit: int, last_seconds: int | None) -> Sequence[Client]:
        """The clients with the most, the heaviest first."""
        return self._clients.heaviest(by, limit, last_seconds=last_seconds)

    async def details(self, text: str) -> ClientDetails:
        """A client by its address or, for IPv6, by any address of its /64. Raises InvalidInputError."""
        address, is_exempt = self._counted_under(text)
        lately = self._clients.find(address, last_seconds=_HOUR_SECONDS)
        ever = self._clients.find(address, last_seconds=None)
        return ClientDetails(
            address,
            is_exempt,
            ClientFigures() if lately is None else lately.figures,
            ClientFigures() if ever is None else ever.figures,
            self._clients.waiting.get(address, 0),
            self._connections.open_from(address),
            self._open_sockets.get(address, 0),
            () if is_exempt else [self._bucket(charge) for charge in await self._standings(address)],
        )

    def _counted_under(self, text: str) -> tuple[str, bool]:
        """The key of an address, and whether no limit applies to it."""
        plain = text.removesuffix("/64")
        if plain != UNKNOWN:
            try:
                parse_ip_address(plain)
            except ValueError as error:
                raise InvalidInputError(f"{text[:60]!r} is no address of a client.") from error
        key = self._addresses.key_of(plain)
        return (plain, True) if key is None else (key, False)

    async def _standings(self, address: str) -> Sequence[Charge]:
        found = self._quotas.standings(address, self._limits)
        return found.charges if found.later is None else (await found.later).charges

    def _bucket(self, charge: Charge) -> Bucket:
        limit, spending = charge.limit, charge.spending
        full_at_ms = self._clock.now_ms() + -(-spending.reset_us // 1_000) if spending.reset_us else None
        return Bucket(limit.name, limit.burst, spending.remaining, full_at_ms)


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


# Clients of all processes on a database: each process keeps the figures of those that came to it.


class ClientsEverywhere:
    """What all processes together know of clients, or one of them. Without `neighbours` there is but one."""

    def __init__(self, views: ClientViews, neighbours: Neighbours | None) -> None:
        self._views = views
        self.neighbours = neighbours

    async def heaviest(self, by: By, last: str, limit: int, process: str | int | None = None) -> Fields:
        """The clients with the most in the period `last`, the heaviest first. Raises InvalidInputError."""
        last_seconds = read_last_seconds({"last": last})

        async def own() -> Fields:
            return list_fields(self._views.heaviest(by, limit, last_seconds))

        def merged(number: int, mine: Fields, replies: Sequence[Reply]) -> Fields:
            return merged_list(number, mine, replies, by, limit)

        question = Question(_CLIENTS, {"by": by, "last": last, "limit": str(limit)})
        return await of_all(self.neighbours, process, question, own, merged)

    async def details(self, address: str, process: str | int | None = None) -> Fields:
        """One client. Raises InvalidInputError."""

        async def own() -> Fields:
            return details_fields(await self._views.details(address))

        question = Question(f"{_CLIENTS}/{quote(address, safe=':')}")
        return await of_all(self.neighbours, process, question, own, merged_details)


class ClientHandlers:
    """One method per endpoint."""

    def __init__(self, clients: ClientsEverywhere, addresses: ClientAddresses) -> None:
        self._clients = clients
        self._addresses = addresses

    async def clients(self, request: web.Request) -> web.Response:
        _, limit = wanted_page(request)
        by, last = read_by(request.query), read_last(request.query)
        return fields_answer(
            await self._clients.heaviest(by, last, limit, wanted_process(request, self._clients.neighbours))
        )

    async def me(self, request: web.Request) -> web.Response:
        addresses = self._addresses
        peer, address = request.remote or "", addresses.client(request)
        forwarded = ", ".join(request.headers.getall("X-Forwarded-For", ())) or None
        is_exempt = addresses.key_of(address) is None
        return fields_answer(arrival_fields(peer, forwarded, addresses.trusts(peer), address, is_exempt))

    async def client(self, request: web.Request) -> web.Response:
        address = request.match_info["address"]
        return fields_answer(
            await self._clients.details(address, wanted_process(request, self._clients.neighbours))
        )


def client_routes(handlers: ClientHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The routes of the heaviest clients, of one client, and of the client that asks."""
    return (
        rows.read("/admin/clients", "clients", handlers.clients),
        rows.read("/admin/clients/me", "client-me", handlers.me),
        rows.read(f"/admin/clients/{{address:{ANY_ID}}}", "client", handlers.client),
    )
