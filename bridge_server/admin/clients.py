"""Clients by address: requests, refusals, and the rest of their limits; the heaviest clients first."""

import re
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Annotated, NotRequired, cast, get_args
from urllib.parse import quote

from aiohttp import web

from bridge_server.admin import other_processes
from bridge_server.admin.other_processes import PROCESS, Fields, Pages, ProcessAnswer, WantedProcess, added
from bridge_server.admin.rows import ANY_ID, AdminRows, wanted_page
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.fields import parse_ip_address
from bridge_server.kernel.instants import rfc3339_or_none
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.web.addresses import UNKNOWN, ClientAddresses
from bridge_server.web.limits import Charge, TokenBuckets
from bridge_server.web.open_connections import Connections
from bridge_server.web.recorder import ORDERS, By, Client, ClientFigures, Clients
from bridge_server.web.routes import Parameter, Route
from bridge_server.web.shapes import Count, Moment, TypedDict, page_parameters, text

_HOUR_SECONDS = 3600

_LAST = re.compile(r"([0-9]{1,4})(m|h)", re.ASCII)
_SECONDS = {"m": 60, "h": 3600}
USUAL_PERIOD = "1h"
_CLIENTS = "/admin/clients"

ClientAddress = Annotated[str, text("192.0.2.1")]


class ClientFiguresAnswer(TypedDict):
    """The requests of an address, and its refusals by limit."""

    requests: Count
    refused: Count
    sessions: Count
    sockets: Count
    waits: Count
    bytes: Count
    refused_by: dict[str, Count]


class ListedClientAnswer(ClientFiguresAnswer):
    """A client address and its figures. IPv6 counts by /64."""

    address: ClientAddress
    waiting: Count


class HeaviestClientsAnswer(TypedDict):
    """The heaviest clients, the heaviest first."""

    clients: list[ListedClientAnswer]
    next: None
    processes: NotRequired[list[ProcessAnswer]]


class ClientBucketAnswer(TypedDict):
    """The rest of a limit, and the time at which it is whole again; null if it is whole."""

    limit: Annotated[str, text("requests")]
    burst: Count
    remaining: Count
    full_at: Moment | None


class ClientDetailsAnswer(TypedDict):
    """A client address: its figures, its open connections and sockets, and its limits."""

    address: ClientAddress
    exempt: bool
    last_hour: ClientFiguresAnswer
    since_start: ClientFiguresAnswer
    waiting: Count
    connections: Count
    open_sockets: Count
    buckets: list[ClientBucketAnswer]
    processes: NotRequired[list[ProcessAnswer]]


class ClientArrivalAnswer(TypedDict):
    """The way of this request: its peer, and the client address that it counts for."""

    peer: Annotated[str, text("127.0.0.1")]
    forwarded_for: ClientAddress | None
    trusted: bool
    address: ClientAddress
    exempt: bool


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """The limits of a client: connections, and token buckets; with the open sockets of each address."""

    addresses: ClientAddresses
    connections: Connections
    quotas: TokenBuckets
    clock: Clock
    limits: Sequence[Limit]
    open_sockets: Counter[str]

    def counted_under(self, client: str) -> tuple[str, bool]:
        """The key of an address, and whether no limit applies to it. Raises InvalidInputError."""
        plain = client.removesuffix("/64")
        if plain != UNKNOWN:
            try:
                parse_ip_address(plain)
            except ValueError as error:
                raise InvalidInputError(f"{client[:60]!r} is no address of a client.") from error
        key = self.addresses.key_of(plain)
        return (plain, True) if key is None else (key, False)

    async def buckets(self, address: str) -> list[ClientBucketAnswer]:
        """Each bucket: its tokens, and the time at which it is full again; null if it is full."""
        found = self.quotas.standings(address, tuple(self.limits))
        charges = found.charges if found.later is None else (await found.later).charges
        return [self._bucket(charge) for charge in charges]

    def _bucket(self, charge: Charge) -> ClientBucketAnswer:
        limit, spending = charge.limit, charge.spending
        full_at_ms = self.clock.now_ms() + -(-spending.reset_us // 1_000) if spending.reset_us else None
        return {
            "limit": limit.name,
            "burst": limit.burst,
            "remaining": spending.remaining,
            "full_at": rfc3339_or_none(full_at_ms),
        }


class ClientAdmin:
    """Shows clients: what came to this process, and to the others on the database."""

    def __init__(self, clients: Clients, limits: AddressLimits, processes: other_processes.Cluster) -> None:
        self._clients, self._limits, self.processes = clients, limits, processes

    async def heaviest(
        self, by: By, last: str, limit: int, process: WantedProcess = None
    ) -> HeaviestClientsAnswer:
        """The requests of each client address. The list is one page. Raises InvalidInputError."""
        last_seconds = read_last_seconds(last)

        async def own() -> HeaviestClientsAnswer:
            found = self._clients.heaviest(by, limit, last_seconds=last_seconds)
            return {"clients": [client_fields(each) for each in found], "next": None}

        def merged(pages: Pages) -> Fields:
            return {"clients": heaviest_fields(pages, by, limit), "next": None}

        question = (_CLIENTS, {"by": by, "last": last, "limit": str(limit)})
        return await self.processes.of_all(process, question, own, merged)

    async def details(self, client: str, process: WantedProcess = None) -> ClientDetailsAnswer:
        """One address: its figures, its open connections and sockets, and the rest of its limits. Raises
        InvalidInputError. For IPv6 it is any address of the /64.
        """

        async def own() -> ClientDetailsAnswer:
            limits, (address, is_exempt) = self._limits, self._limits.counted_under(client)

            def figures(last_seconds: int | None) -> ClientFiguresAnswer:
                found = self._clients.find(address, last_seconds=last_seconds)
                return figures_fields(ClientFigures() if found is None else found.figures)

            return {
                "address": address,
                "exempt": is_exempt,
                "last_hour": figures(_HOUR_SECONDS),
                "since_start": figures(None),
                "waiting": self._clients.waiting.get(address, 0),
                "connections": limits.connections.open_from(address),
                "open_sockets": limits.open_sockets.get(address, 0),
                "buckets": [] if is_exempt else await limits.buckets(address),
            }

        path = f"{_CLIENTS}/{quote(client, safe=':')}"
        return await self.processes.of_all(process, (path, {}), own, merged_details)

    async def handle_me(self, request: web.Request) -> ClientArrivalAnswer:
        """Asked through a proxy, it shows whether `trusted_proxies` is right."""
        addresses = self._limits.addresses
        peer, address = request.remote or "", addresses.client(request)
        return {
            "peer": peer,
            "forwarded_for": ", ".join(request.headers.getall("X-Forwarded-For", ())) or None,
            "trusted": addresses.trusts(peer),
            "address": address,
            "exempt": addresses.key_of(address) is None,
        }


def read_by(query: Mapping[str, str]) -> By:
    """The figure that the list is ordered by. Raises InvalidInputError."""
    by = query.get("by", "requests")
    if by not in get_args(By):
        raise InvalidInputError(f"The query parameter by takes {', '.join(get_args(By))}.")
    return cast(By, by)


def read_last_seconds(last: str) -> int | None:
    """How far back the figures go, at most an hour; None: to the start. Raises InvalidInputError."""
    if last == "start":
        return None
    found = _LAST.fullmatch(last)
    seconds = 0 if found is None else int(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _HOUR_SECONDS:
        raise InvalidInputError("The query parameter last takes 5m to 1h, or start.")
    return seconds


def merged_details(pages: Pages) -> Fields:
    """A client: figures, connections and sockets of all processes together; its limits hold for all."""
    found = [*pages.values()]
    return {
        **found[0],
        **{name: added([each[name] for each in found]) for name in ("last_hour", "since_start")},
        **{name: sum(each[name] for each in found) for name in ("waiting", "connections", "open_sockets")},
    }


def heaviest_fields(pages: Pages, by: str, limit: int) -> list[Fields]:
    """The heaviest of the clients that several processes have listed, each address once."""
    of_address: dict[str, list[Fields]] = {}
    for client in (client for page in pages.values() for client in page["clients"]):
        of_address.setdefault(client["address"], []).append(client)
    return sorted(map(added, of_address.values()), key=lambda client: -int(client[by]))[:limit]


def client_fields(client: Client) -> ListedClientAnswer:
    return {"address": client.address, "waiting": client.waiting, **figures_fields(client.figures)}


def figures_fields(figures: ClientFigures) -> ClientFiguresAnswer:
    """Requests and refusals; the refusals by limit, the most frequent first."""
    ranked = sorted(figures.refused_by.items(), key=lambda item: -item[1])
    return {
        "requests": figures.requests,
        "refused": figures.refused,
        "sessions": figures.sessions,
        "sockets": figures.sockets,
        "waits": figures.waits,
        "bytes": figures.bytes,
        "refused_by": dict(ranked),
    }


_BY = Parameter("by", "The figure that orders the list.", {"enum": [*ORDERS], "default": "requests"})
_PERIOD = {"type": "string", "pattern": "^([0-9]{1,4}[mh]|start)$", "default": USUAL_PERIOD}
_BACK = Parameter("last", "How far back the figures go, from `5m` to `1h`, or `start`.", _PERIOD)
_ADDRESS = Parameter("address", "The address of a client.", place="path", example="192.0.2.1")


def client_routes(clients: ClientAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """The heaviest clients, one client, and the client that asks."""
    rows, process = rows.under("Observation"), clients.processes.wanted
    one_page = page_parameters("Has no effect: the list is one page.")

    def heaviest(request: web.Request) -> Awaitable[HeaviestClientsAnswer]:
        _, limit = wanted_page(request)
        by, last = read_by(request.query), request.query.get("last", USUAL_PERIOD)
        return clients.heaviest(by, last, limit, process(request))

    return (
        rows.read(_CLIENTS, "clients", heaviest, "List the heaviest clients", "The clients.",
                  of=clients.heaviest, parameters=(_BY, _BACK, PROCESS, *one_page), needs_database=False),
        rows.read(f"{_CLIENTS}/me", "client-me", clients.handle_me,
                  "Show how this request came", "The way of this request.", needs_database=False),
        rows.read(f"{_CLIENTS}/{{address:{ANY_ID}}}", "client",
                  lambda request: clients.details(request.match_info["address"], process(request)),
                  "Show a client", "The client.", of=clients.details, parameters=(PROCESS, _ADDRESS),
                  problems=(InvalidInputError,), needs_database=False),
    )  # fmt: skip
