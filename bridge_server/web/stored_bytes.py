"""Quotas of what clients store: bytes, not requests. They come back over the time that what is stored lives.

Each client address has a bucket, and all clients together have one. They are charged once a body has been
found valid, with the size of what is stored of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.web.quotas import Charge, Cost, Quotas, declare

_LEAST_INTERVAL_US = 10
_ALL_CLIENTS = "all"


@dataclass(frozen=True, slots=True)
class StorageLimit:
    """A limit whose tokens are units of so many bytes."""

    limit: Limit
    unit_bytes: int

    def cost(self, key: str, size_bytes: int) -> Cost:
        """What storing so much costs. What is larger than the whole bucket empties it."""
        units = -(-size_bytes // self.unit_bytes)
        return Cost(key, self.limit, min(units, self.limit.burst))


def storage_limit(name: str, size_bytes: int, window_seconds: int) -> StorageLimit:
    """The limit of `size_bytes` at once, which come back in the window.

    It counts bytes unless they come back faster than whole microseconds can tell.
    """
    window_us = window_seconds * MICROSECONDS
    is_exact = window_us >= size_bytes * _LEAST_INTERVAL_US
    unit, unit_bytes = ("bytes", 1) if is_exact else ("kibibytes", 1024)
    burst = max(1, size_bytes // unit_bytes)
    return StorageLimit(Limit(f"{name}-{unit}", burst, max(1, round(window_us / burst))), unit_bytes)


class StoredBytes:
    """Charges clients for what they store. `bucket_key` tells under which key a client's address counts."""

    def __init__(
        self,
        quotas: Quotas,
        bucket_key: Callable[[web.Request], str | None],
        per_address: StorageLimit,
        in_all: StorageLimit,
    ) -> None:
        self._quotas = quotas
        self._bucket_key = bucket_key
        self._per_address = per_address
        self._in_all = in_all

    def charge(self, request: web.Request, size_bytes: int) -> list[Charge]:
        """Charge the client, and all of them; what is to be declared to the client, which may be exempt from
        a bucket of its own. Raises QuotaError, and then has charged nobody.
        """
        in_all = self._in_all.cost(_ALL_CLIENTS, size_bytes)
        address = self._bucket_key(request)
        if address is None:
            self._quotas.charge_costs((in_all,))
            return []
        charges = self._quotas.charge_costs((self._per_address.cost(address, size_bytes), in_all))
        return charges[:1]


def declared(answer: web.Response, charges: list[Charge]) -> web.Response:
    """The answer, which tells the client where it stands."""
    declare(charges, answer.headers)
    return answer
