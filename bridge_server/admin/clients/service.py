"""Clients and their figures, connections and buckets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.ip_addresses import parse_ip_address
from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.charges import Charge
from bridge_server.web.client_address import UNKNOWN, ClientAddresses
from bridge_server.web.clients import By, Client, ClientFigures, Clients
from bridge_server.web.connections import Connections
from bridge_server.web.token_buckets import TokenBuckets

_HOUR_SECONDS = 3600


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
