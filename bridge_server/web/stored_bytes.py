"""Quotas of stored bytes. The bytes come back over the lifetime of the stored data.

Each client address has a bucket, and all clients together have one. They are charged once a body has been
found valid, with the size of its stored part.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Self, TypeAlias

from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.web.charges import BucketId, Cost, QuotaError, declare
from bridge_server.web.token_buckets import TokenBuckets

_LEAST_INTERVAL_US = 10
_GAIN_BYTES = 1_024
_ALL_CLIENTS = "all"


_Bucket: TypeAlias = tuple[BucketId, Limit]


def storage_limit(name: str, size_bytes: int, window_seconds: int) -> Limit:
    """The limit of `size_bytes` at once, which come back in the window.

    A token is a byte, and so it stays when the size changes. A bucket gains a KiB at a time, so that bytes
    which come back faster than one in some microseconds are counted exactly enough.
    """
    window_us = window_seconds * MICROSECONDS
    if window_us >= size_bytes * _LEAST_INTERVAL_US:
        interval_us = round(window_us / size_bytes) * _GAIN_BYTES
    else:
        interval_us = max(1, round(window_us * _GAIN_BYTES / size_bytes))
    return Limit(f"{name}-bytes", size_bytes, interval_us, _GAIN_BYTES)


class StoredBytes:
    """Charges clients for the bytes that they store. `bucket_key` returns the key of a client's bucket."""

    def __init__(
        self,
        quotas: TokenBuckets,
        bucket_key: Callable[[web.Request], str | None],
        per_address: Limit,
        in_all: Limit,
    ) -> None:
        self._quotas = quotas
        self._bucket_key = bucket_key
        self._per_address = per_address
        self._in_all = in_all

    @property
    def per_address(self) -> Limit:
        """The limit of one address."""
        return self._per_address

    def bill(self, request: web.Request, size_bytes: int) -> "Bill":
        """Charge the client's bucket and the bucket of all clients, at once or when `late` was awaited.

        Raises QuotaError, and then charges neither.
        """
        return Bill(self._quotas, self._buckets(self._bucket_key(request)), size_bytes)

    async def hold(self, needs: Mapping[str | None, int]) -> None:
        """Have the bytes at hand that these keys are going to need, as far as there are as many.

        Where several processes charge the buckets, `covers` is right only after that. Raises
        UnavailableError.
        """
        sizes: Counter[BucketId] = Counter()
        limits: dict[BucketId, Limit] = {}
        for address, size_bytes in needs.items():
            for bucket, limit in self._buckets(address):
                sizes[bucket] += size_bytes
                limits[bucket] = limit
        costs = []
        for bucket, size_bytes in sizes.items():
            limit = limits[bucket]
            costs.append(Cost(bucket[1], limit, min(size_bytes, limit.burst)))
        await self._quotas.hold(costs)

    def covers(self, address: str | None, size_bytes: int) -> bool:
        """Whether this many bytes can be charged to the key now; None is exempt. Any thread may call it."""
        try:
            self._quotas.require_costs(_costs(self._buckets(address), size_bytes))
        except QuotaError:
            return False
        return True

    def pay(self, address: str | None, size_bytes: int) -> None:
        """Charge the key for the stored bytes."""
        self._quotas.charge_what_is_left(_costs(self._buckets(address), size_bytes))

    def _buckets(self, address: str | None) -> tuple[_Bucket, ...]:
        together = (self._in_all.name, _ALL_CLIENTS), self._in_all
        own = self._per_address
        return (together,) if address is None else (((own.name, address), own), together)


class Bill:
    """The charge for one request's data. A BridgeError inside its `with` block takes the charge back.

    When the client leaves, the data is stored all the same, and nothing is taken back. The last of the
    buckets is the one of all clients.
    """

    __slots__ = ("_buckets", "_is_charged", "_loop", "_more_bytes", "_quotas", "_size_bytes", "late")

    def __init__(self, quotas: TokenBuckets, buckets: tuple[_Bucket, ...], size_bytes: int) -> None:
        self._quotas = quotas
        self._buckets = buckets
        self._size_bytes = size_bytes
        self._more_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._is_charged = True
        self.late: Awaitable[None] | None = None
        """The awaitable for the `with` block, which is awaited before anything is stored."""
        self._charge()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._is_charged and issubclass(kind, BridgeError):
            for size_bytes in (self._size_bytes, self._more_bytes):
                self._quotas.give_back(self._costs(size_bytes))

    def afford(self, size_bytes: int) -> None:
        """Charge further stored bytes. Raises QuotaError.

        The transaction calls this in its own thread, perhaps again when it is run again.
        """
        self._quotas.require_costs(self._costs(size_bytes))
        self._loop.call_soon_threadsafe(self._pay, size_bytes)

    def declared_on(self, answer: web.Response) -> web.Response:
        """The answer with header fields about the client's limits, unless it is exempt."""
        if len(self._buckets) > 1:
            declare([self._quotas.standing(*self._buckets[0])], answer.headers)
        return answer

    def _charge(self) -> None:
        size_bytes, take = self._size_bytes, self._quotas.take
        for position, (bucket, limit) in enumerate(self._buckets):
            if not take(bucket, limit, min(size_bytes, limit.burst)):
                costs = self._costs(size_bytes)
                self._quotas.give_back(costs[:position])
                late = self._quotas.charge_costs(costs)
                if late is not None:
                    self._is_charged, self.late = False, self._charge_late(late)
                return

    async def _charge_late(self, late: Awaitable[None]) -> None:
        await late
        self._is_charged = True

    def _pay(self, size_bytes: int) -> None:
        if not self._more_bytes:
            self._more_bytes = size_bytes
            self._quotas.charge_what_is_left(self._costs(size_bytes))

    def _costs(self, size_bytes: int) -> list[Cost]:
        return _costs(self._buckets, size_bytes)


def _costs(buckets: tuple[_Bucket, ...], size_bytes: int) -> list[Cost]:
    """The charge for this many bytes: a size beyond a whole bucket empties it."""
    return [Cost(key, limit, min(size_bytes, limit.burst)) for (_, key), limit in buckets]
