"""Quotas of stored bytes. The bytes come back over the lifetime of the stored data.

Each client address has a bucket, and all clients together have one. They are charged once a body has been
found valid, with the size of its stored part.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.web.quotas import BucketId, Cost, QuotaError, Quotas, declare

_LEAST_INTERVAL_US = 10
_ALL_CLIENTS = "all"


@dataclass(slots=True)
class StorageLimit:
    """A limit whose tokens are units of so many bytes. It may be changed at any time."""

    limit: Limit
    unit_bytes: int

    def tokens(self, size_bytes: int) -> int:
        """The tokens that storing so many bytes costs, at most the whole bucket."""
        return min(-(-size_bytes // self.unit_bytes), self.limit.burst)


_Bucket: TypeAlias = tuple[BucketId, StorageLimit]


def storage_limit(name: str, size_bytes: int, window_seconds: int) -> StorageLimit:
    """The limit of `size_bytes` at once, which come back in the window.

    It counts bytes unless they come back faster than whole microseconds can tell.
    """
    window_us = window_seconds * MICROSECONDS
    is_exact = window_us >= size_bytes * _LEAST_INTERVAL_US
    unit, unit_bytes = ("bytes", 1) if is_exact else ("kibibytes", 1024)
    burst = max(1, size_bytes // unit_bytes)
    return StorageLimit(Limit(f"{name}-{unit}", burst, max(1, round(window_us / burst))), unit_bytes)


def _bucket(limit: StorageLimit, key: str) -> _Bucket:
    """The caller's bucket as the limit is now: once changed it may count in another unit, by another name."""
    return (limit.limit.name, key), limit


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

    def bill(self, request: web.Request, size_bytes: int) -> "Bill":
        """Charge the client's bucket, and that of all clients. Raises QuotaError, and then neither is
        charged.
        """
        return Bill(self._quotas, self._buckets(self._bucket_key(request)), size_bytes)

    def covers(self, address: str | None, size_bytes: int) -> bool:
        """Whether so much can be charged to this key now; None is exempt. Any thread may ask."""
        try:
            self._quotas.require_costs(_costs(self._buckets(address), size_bytes))
        except QuotaError:
            return False
        return True

    def pay(self, address: str | None, size_bytes: int) -> None:
        """Charge the key for what has been stored."""
        self._quotas.charge_what_is_left(_costs(self._buckets(address), size_bytes))

    def _buckets(self, address: str | None) -> tuple[_Bucket, ...]:
        together = _bucket(self._in_all, _ALL_CLIENTS)
        return (together,) if address is None else (_bucket(self._per_address, address), together)


class Bill:
    """The charge for one request's data. A BridgeError inside its `with` block takes the charge back.

    When the client leaves, the data is stored all the same, and nothing is taken back. The last of the
    buckets is the one of all clients.
    """

    __slots__ = ("_buckets", "_loop", "_more_bytes", "_quotas", "_size_bytes")

    def __init__(self, quotas: Quotas, buckets: tuple[_Bucket, ...], size_bytes: int) -> None:
        self._quotas = quotas
        self._buckets = buckets
        self._size_bytes = size_bytes
        self._more_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._charge()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, BridgeError):
            for size_bytes in (self._size_bytes, self._more_bytes):
                self._quotas.give_back(self._costs(size_bytes))

    def afford(self, size_bytes: int) -> None:
        """So much more is to be stored, by the transaction that calls this in its own thread, perhaps again
        when it is run again. Raises QuotaError.
        """
        self._quotas.require_costs(self._costs(size_bytes))
        self._loop.call_soon_threadsafe(self._pay, size_bytes)

    def declared_on(self, answer: web.Response) -> web.Response:
        """The answer, which tells the client where it stands unless it is exempt."""
        if len(self._buckets) > 1:
            bucket, of = self._buckets[0]
            declare([self._quotas.standing(bucket, of.limit)], answer.headers)
        return answer

    def _charge(self) -> None:
        size_bytes, take = self._size_bytes, self._quotas.take
        for position, (bucket, of) in enumerate(self._buckets):
            if not take(bucket, of.limit, of.tokens(size_bytes)):
                costs = self._costs(size_bytes)
                self._quotas.give_back(costs[:position])
                self._quotas.charge_costs(costs)
                return

    def _pay(self, size_bytes: int) -> None:
        if not self._more_bytes:
            self._more_bytes = size_bytes
            self._quotas.charge_what_is_left(self._costs(size_bytes))

    def _costs(self, size_bytes: int) -> list[Cost]:
        return _costs(self._buckets, size_bytes)


def _costs(buckets: tuple[_Bucket, ...], size_bytes: int) -> list[Cost]:
    return [Cost(bucket[1], of.limit, of.tokens(size_bytes)) for bucket, of in buckets]
