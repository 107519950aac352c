"""Limits of callers: an address or a project has a token bucket for each limit, charged with each request or
each stored byte. `Quotas` keeps the buckets of one process in memory and on disk; `web/shared_limits.py`
keeps buckets in a database that several processes share.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self, TypeAlias

from aiohttp import web

from bridge_server.kernel import token_bucket
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, LimitError
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit, Spending, spend, whole_seconds
from bridge_server.kernel.values import dataclass
from bridge_server.storage.database import Database, Statement, Transaction, scalar, sweeping, transaction
from bridge_server.web.answers import declare_on

_WORTH_SAVING_US = 1_000_000
_SAVED_SHARE = 100
_BUCKETS_BEFORE_PRUNING = 100_000
_LEAST_INTERVAL_US = 10
_GAIN_BYTES = 1_024
_ALL_CLIENTS = "all"
_SWEEP_SLICE = 500

_SAVE = """
INSERT INTO buckets (limit_name, key, full_at_us, interval_us) VALUES (?, ?, ?, ?)
ON CONFLICT (limit_name, key) DO UPDATE
SET full_at_us = excluded.full_at_us, interval_us = excluded.interval_us
"""
_LOAD = "SELECT limit_name, key, full_at_us, interval_us FROM buckets WHERE full_at_us > ?"
SWEEP = """
DELETE FROM buckets WHERE (limit_name, key) IN
    (SELECT limit_name, key FROM buckets WHERE full_at_us <= ? LIMIT ?)
"""

BucketId: TypeAlias = tuple[str, str]
"""The limit's name and the caller's key."""
Bucket: TypeAlias = tuple[BucketId, Limit]
"""The bucket of a caller, and its limit."""


class SavedBucket(NamedTuple):
    """A bucket on disk: when it is full again, reckoned with one token every `interval_us`."""

    limit_name: str
    key: str
    full_at_us: int
    interval_us: int | None
    """The interval of the limit when it was saved; None: the interval that the limit has now."""


class Charge(NamedTuple):
    """The charge of one request to one limit."""

    limit: Limit
    spending: Spending


class Charged(NamedTuple):
    """The charges of one request. `kept_at` is their number for `is_kept`, 0 if not worth saving."""

    charges: list[Charge]
    kept_at: int = 0
    later: Awaitable["Charged"] | None = None
    """Gives the charges, where the database must be queried: other processes charge these buckets, too."""


NOTHING_CHARGED = Charged([])


class Cost(NamedTuple):
    """The tokens that a bucket is to be charged."""

    key: str
    limit: Limit
    tokens: int


class QuotaError(LimitError):
    """A caller has used up one of its limits."""

    def __init__(self, charges: list[Charge]) -> None:
        refused = max(charges, key=lambda charge: charge.spending.retry_after_us)
        seconds = whole_seconds(refused.spending.retry_after_us)
        super().__init__(f"{_in_words(refused.limit)} Try again in {seconds} s.", seconds)
        self.charges = charges
        self.limit_name = refused.limit.name


def _in_words(limit: Limit) -> str:
    """The limit as a sentence: its burst, and its rate."""
    many, seconds = MICROSECONDS // limit.token_us, whole_seconds(limit.token_us)
    more = f"{many} more every second" if many else f"1 more every {seconds} s"
    return f"The limit is {limit.burst} {limit.name.replace('-', ' ')} at once, and {more}."


def declare(charges: list[Charge], response: web.StreamResponse) -> None:
    """Add the fields RateLimit and RateLimit-Policy for these charges, beside the fields of other limits."""
    if not charges:
        return
    policy = _policy_of(charge.limit for charge in charges)
    standing = ", ".join(
        f'"{charge.limit.name}";r={charge.spending.remaining};t={whole_seconds(charge.spending.reset_us)}'
        for charge in charges
    )
    declare_on(response, policy, standing)


def _policy_of(limits: Iterable[Limit]) -> str:
    return ", ".join(f'"{each.name}";q={each.burst};w={whole_seconds(each.window_us)}' for each in limits)


Standing: TypeAlias = tuple[str, str]
"""The header fields RateLimit-Policy and RateLimit."""


class _Shown:
    """The header fields about one limit. The policy's is made once for each change of the limit."""

    __slots__ = ("_burst", "_limit", "_policy", "_window_us")

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._burst = self._window_us = 0
        self._policy = ""

    def standing(self, reset_us: int) -> Standing:
        """The fields for a bucket that is full again after this time."""
        limit, window_us = self._limit, self._limit.window_us
        if limit.burst != self._burst or window_us != self._window_us:
            self._burst, self._window_us, self._policy = limit.burst, window_us, _policy_of((limit,))
        left = (window_us - reset_us) * limit.gain // limit.interval_us
        return self._policy, f'"{limit.name}";r={left};t={-(-reset_us // MICROSECONDS)}'


def far_from(limits: Sequence[Limit], quotas: "TokenBuckets") -> Callable[[str], Standing | None]:
    """A function that charges a key one token of each limit while all are far from reached, and makes no
    object but texts of header fields. It returns None, and has charged nothing, if `charge` is to do it.
    """
    take_one_each, (standing_of, *others) = quotas.take_one_each, [_Shown(limit).standing for limit in limits]

    def charge(key: str) -> Standing | None:
        resets_us = take_one_each(key, limits)
        if resets_us is None:
            return None
        policy, standing = standing_of(resets_us[0])
        for place, other in enumerate(others, 1):
            more, left = other(resets_us[place])
            policy, standing = f"{policy}, {more}", f"{standing}, {left}"
        return policy, standing

    return charge


class TokenBuckets(Protocol):
    """Charges callers, each known by a key, to their buckets. Where several processes share the buckets, a
    charge may have to wait for the database. Then the awaitable that is returned raises QuotaError, or
    UnavailableError.
    """

    def charge(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        """Spend one token of each limit, or none; the charges, at once or `later`. Raises QuotaError."""

    def take_one_each(self, key: str, limits: Sequence[Limit]) -> Sequence[int] | None:
        """Spend one token of each limit, all far from being reached; returns the microseconds until each
        bucket is full. None if `charge` is to do it: then nothing was spent.
        """

    def standings(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        """The tokens that the caller has left of each limit, at once or `later`; nothing is spent."""

    def is_kept(self, charged: Charged) -> bool:
        """Whether the charge is on disk, as far as it is worth saving."""

    def take(self, buckets: Sequence[Bucket], tokens: int) -> int | None:
        """Charge each bucket these tokens, or all that it can have, as `charge_costs` does but quicker:
        returns the microseconds until the first bucket is full. None if they are to be charged by that: then
        nothing was charged.
        """

    def charge_costs(self, costs: Sequence[Cost]) -> Awaitable[None] | None:
        """Charge several buckets, or none: at once (None), or in the awaitable. Raises QuotaError."""

    async def hold(self, costs: Sequence[Cost]) -> None:
        """Lease these tokens, or read what is left, before a transaction that calls `require_costs`. Where
        several processes share the buckets, `require_costs` is exact only after this call. Raises
        UnavailableError.
        """

    def require_costs(self, costs: Sequence[Cost]) -> None:
        """Charge nothing, and raise QuotaError if that could not be charged now. Any thread may ask."""

    def give_back(self, costs: Sequence[Cost]) -> None:
        """Take charges back: the work was not done."""

    def charge_what_is_left(self, costs: Sequence[Cost]) -> None:
        """Charge buckets for work that is done: a bucket with too few tokens is empty then."""

    def standing(self, bucket: BucketId, limit: Limit) -> Charge:
        """The tokens that are left in a bucket that was charged just now."""

    def forget_all(self) -> None:
        """Have every bucket full again: the rows of buckets in the database were deleted."""


class Quotas:
    """Buckets in memory, which are saved with the next commit unless they are full within a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full_at_us: dict[BucketId, int] = {}
        self._saved_at_us: dict[BucketId, int] = {}
        self._interval_us: dict[str, int] = {}
        self._unsaved: set[BucketId] = set()
        self._being_saved: set[BucketId] = set()
        self._prune_above = _BUCKETS_BEFORE_PRUNING
        self._charged = 0
        self._taken = 0
        self._kept = 0

    def charge(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        now_us = self._clock.now_us()
        self._follow(limits, now_us)
        full_at_us = self._full_at_us
        charges = [
            Charge(limit, spend(limit, full_at_us.get((limit.name, key), 0), now_us)) for limit in limits
        ]
        if not all(charge.spending.allowed for charge in charges):
            charges = [
                self._spend(Cost(key, charge.limit, 0), now_us) if charge.spending.allowed else charge
                for charge in charges
            ]
            for charge in charges:
                self._keep((charge.limit.name, key), charge.spending)  # a clock set back may have moved it
            raise QuotaError(charges)
        for charge in charges:
            self._keep((charge.limit.name, key), charge.spending)
        if len(full_at_us) > self._prune_above:
            self._prune(now_us)
        self._charged += 1
        is_worth_saving = any(charge.spending.reset_us > _WORTH_SAVING_US for charge in charges)
        return Charged(charges, self._charged if is_worth_saving else 0)

    def take_one_each(self, key: str, limits: Sequence[Limit]) -> Sequence[int] | None:
        """Spend one token of each limit if all are full again too soon to be worth saving; else None."""
        now_us, full_at_us, taken, resets_us = self._clock.now_us(), self._full_at_us, {}, []
        for limit in limits:
            bucket, reset_us = (limit.name, key), limit.token_us
            full_us = full_at_us.get(bucket, 0)
            if full_us > now_us:
                reset_us += full_us - now_us
            if (
                reset_us > _WORTH_SAVING_US
                or reset_us > limit.window_us
                or self._interval_us.get(limit.name) != limit.interval_us
            ):
                return None
            taken[bucket] = now_us + reset_us
            resets_us.append(reset_us)
        if len(full_at_us) > self._prune_above:
            return None
        full_at_us.update(taken)
        return resets_us

    def charge_costs(self, costs: Sequence[Cost]) -> None:
        """Charge, and save a bucket once a hundredth of it was spent: at every commit it would be slow."""
        now_us = self._clock.now_us()
        self._follow([limit for _, limit, _ in costs], now_us)
        charges = [self._spend(cost, now_us) for cost in costs]
        is_allowed = all(charge.spending.allowed for charge in charges)
        if not is_allowed:
            charges = [
                self._spend(cost._replace(tokens=0), now_us) if charge.spending.allowed else charge
                for cost, charge in zip(costs, charges, strict=True)
            ]
        for (key, limit, _), charge in zip(costs, charges, strict=True):
            self._keep_roughly((limit.name, key), charge, now_us)
        if not is_allowed:
            raise QuotaError(charges)
        if len(self._full_at_us) > self._prune_above:
            self._prune(now_us)

    def take(self, buckets: Sequence[Bucket], tokens: int) -> int | None:
        now_us, full_at_us, taken = self._clock.now_us(), self._full_at_us, []
        for bucket, limit in buckets:
            interval_us, window_us = limit.interval_us, limit.window_us
            if self._interval_us.get(limit.name) != interval_us:
                self._reckon_anew(limit, now_us)
            reset_us = -(-tokens * interval_us // limit.gain) if tokens < limit.burst else window_us
            full_us = full_at_us.get(bucket, 0)
            if full_us > now_us:
                reset_us += full_us - now_us
            if reset_us > window_us:
                return None
            taken.append((bucket, reset_us, window_us))
        if len(full_at_us) > self._prune_above:
            return None
        for bucket, reset_us, window_us in taken:
            full_at_us[bucket] = now_us + reset_us
            if reset_us * _SAVED_SHARE >= window_us:
                self._mark_roughly(bucket, now_us + reset_us, window_us, now_us)
        return taken[0][1]

    def standing(self, bucket: BucketId, limit: Limit) -> Charge:
        return self._spend(Cost(bucket[1], limit, 0), self._clock.now_us())

    async def hold(self, _: Sequence[Cost]) -> None:
        """Do nothing: no other process has tokens of these buckets."""

    def require_costs(self, costs: Sequence[Cost]) -> None:
        now_us = self._clock.now_us()
        charges = [self._spend(cost, now_us) for cost in costs]
        if not all(charge.spending.allowed for charge in charges):
            raise QuotaError(charges)

    def give_back(self, costs: Sequence[Cost]) -> None:
        now_us = self._clock.now_us()
        for key, limit, tokens in costs:
            self._keep_roughly((limit.name, key), self._spend(Cost(key, limit, -tokens), now_us), now_us)

    def charge_what_is_left(self, costs: Sequence[Cost]) -> None:
        now_us = self._clock.now_us()
        for key, limit, tokens in costs:
            left = self._spend(Cost(key, limit, 0), now_us).spending.remaining
            charge = self._spend(Cost(key, limit, min(tokens, left)), now_us)
            self._keep_roughly((limit.name, key), charge, now_us)

    def standings(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        now_us = self._clock.now_us()
        self._follow(limits, now_us)
        return Charged([self._spend(Cost(key, limit, 0), now_us) for limit in limits])

    @property
    def has_unsaved(self) -> bool:
        """Whether a bucket that is worth saving has changed."""
        return bool(self._unsaved or self._being_saved)

    def is_kept(self, charged: Charged) -> bool:
        return charged.kept_at <= self._kept

    def take_unsaved(self) -> list[SavedBucket]:
        """The buckets that have changed since they were saved, for the commit that saves them."""
        self._being_saved |= self._unsaved & self._full_at_us.keys()
        self._unsaved.clear()
        self._taken = self._charged
        return [
            SavedBucket(name, key, self._full_at_us[name, key], self._interval_us.get(name))
            for name, key in self._being_saved
        ]

    def forget_nothing(self) -> None:
        """Save every bucket that is not full with the next commit, however soon it would be full again."""
        now_us = self._clock.now_us()
        self._unsaved.update(bucket for bucket, full in self._full_at_us.items() if full > now_us)

    def forget_all(self) -> None:
        self._full_at_us.clear()
        self._saved_at_us.clear()
        self._unsaved.clear()
        self._being_saved.clear()

    def saved(self) -> None:
        """Note that the buckets of the last `take_unsaved` are on disk; until then it returns them again."""
        self._being_saved.clear()
        self._kept = self._taken

    def restore(self, buckets: Iterable[SavedBucket]) -> None:
        """Take over buckets that were saved before a restart."""
        now_us = self._clock.now_us()
        for name, key, full_at_us, interval_us in buckets:
            if interval_us is not None:
                known_us = self._interval_us.setdefault(name, interval_us)
                full_at_us = token_bucket.reckoned_anew(full_at_us, now_us, interval_us, known_us)
            self._full_at_us[name, key] = full_at_us

    def _follow(self, limits: Sequence[Limit], now_us: int) -> None:
        """Reckon the buckets of limits whose interval was changed; the tokens that were used stay used."""
        for limit in limits:
            if self._interval_us.get(limit.name) != limit.interval_us:
                self._reckon_anew(limit, now_us)

    def _reckon_anew(self, limit: Limit, now_us: int) -> None:
        before_us = self._interval_us.get(limit.name, limit.interval_us)
        self._interval_us[limit.name] = limit.interval_us
        for bucket, full_at_us in self._full_at_us.items():
            if bucket[0] == limit.name:
                self._full_at_us[bucket] = token_bucket.reckoned_anew(
                    full_at_us, now_us, before_us, limit.interval_us, limit.gain
                )

    def _spend(self, cost: Cost, now_us: int) -> Charge:
        key, limit, tokens = cost
        return Charge(limit, spend(limit, self._full_at_us.get((limit.name, key), 0), now_us, tokens))

    def _keep_roughly(self, bucket: BucketId, charge: Charge, now_us: int) -> None:
        self._full_at_us[bucket] = full_at_us = charge.spending.full_at_us
        self._mark_roughly(bucket, full_at_us, charge.limit.window_us, now_us)

    def _mark_roughly(self, bucket: BucketId, full_at_us: int, window_us: int, now_us: int) -> None:
        """Have the bucket saved if a hundredth of it was spent since."""
        lost_us = full_at_us - max(self._saved_at_us.get(bucket, 0), now_us)
        if lost_us * _SAVED_SHARE >= window_us:
            self._saved_at_us[bucket] = full_at_us
            self._unsaved.add(bucket)

    def _keep(self, bucket: BucketId, spending: Spending) -> None:
        self._full_at_us[bucket] = spending.full_at_us
        if spending.reset_us > _WORTH_SAVING_US:
            self._unsaved.add(bucket)

    def forget_full(self) -> None:
        """Forget the buckets that are full: a clock that is set back later would find them empty."""
        self._prune(self._clock.now_us())

    def _prune(self, now_us: int) -> None:
        self._full_at_us = {bucket: full for bucket, full in self._full_at_us.items() if full > now_us}
        self._saved_at_us = {bucket: at for bucket, at in self._saved_at_us.items() if at > now_us}
        self._being_saved &= self._full_at_us.keys()
        self._prune_above = max(_BUCKETS_BEFORE_PRUNING, 2 * len(self._full_at_us))


def storage_limit(name: str, size_bytes: int, window_seconds: int) -> Limit:
    """A burst of `size_bytes`, refilled over the window. A token is a byte, whatever the size. The bucket
    refills by the KiB: an interval for each byte would be too few microseconds to be exact.
    """
    window_us = window_seconds * MICROSECONDS
    if window_us >= size_bytes * _LEAST_INTERVAL_US:
        interval_us = round(window_us / size_bytes) * _GAIN_BYTES
    else:
        interval_us = max(1, round(window_us * _GAIN_BYTES / size_bytes))
    return Limit(f"{name}-bytes", size_bytes, interval_us, _GAIN_BYTES)


class StoredBytes:
    """Charges the bytes that clients store, which come back over the lifetime of the stored data, to a bucket
    of the client's address (`bucket_key` returns its key, None for an exempt client) and one of all clients.
    They are charged once a body was found valid, with the size of its stored part.
    """

    def __init__(
        self,
        quotas: TokenBuckets,
        bucket_key: Callable[[web.Request], str | None],
        per_address: Limit,
        in_all: Limit,
    ) -> None:
        self._quotas = quotas
        self._bucket_key = bucket_key
        self.per_address = per_address
        self._in_all = in_all
        self._together = (in_all.name, _ALL_CLIENTS), in_all
        self._shown = _Shown(per_address)

    def bill(self, request: web.Request, size_bytes: int) -> "Bill":
        """Charge the client's bucket and all clients', or neither, now or when `late` was awaited."""
        return Bill(self._quotas, self._buckets(self._bucket_key(request)), size_bytes, self._shown)

    async def hold(self, needs: Mapping[str | None, int]) -> None:
        """Prepare a transaction that stores these bytes, by the key of their client (None: exempt). Where
        several processes charge the buckets, `covers` is exact only after this call. Raises UnavailableError.
        """
        sizes: Counter[BucketId] = Counter()
        limits: dict[BucketId, Limit] = {}
        for address, size_bytes in needs.items():
            for bucket, limit in self._buckets(address):
                sizes[bucket] += size_bytes
                limits[bucket] = limit
        await self._quotas.hold([_cost(bucket, limits[bucket], size) for bucket, size in sizes.items()])

    def covers(self, address: str | None, size_bytes: int) -> bool:
        """Whether this many bytes can be charged to the key now; None is exempt. Any thread may call it."""
        try:
            self._quotas.require_costs(costs_of(self._buckets(address), size_bytes))
        except QuotaError:
            return False
        return True

    def pay(self, address: str | None, size_bytes: int) -> None:
        """Charge the key for the stored bytes."""
        self._quotas.charge_what_is_left(costs_of(self._buckets(address), size_bytes))

    def _buckets(self, address: str | None) -> tuple[Bucket, ...]:
        own = self.per_address
        return (self._together,) if address is None else (((own.name, address), own), self._together)


class Bill:
    """The charge for one request's data. A BridgeError inside its `with` block takes the charge back. When
    the client leaves, the charge stands, unless `is_stored` is false. The last of the buckets is the one of
    all clients. While the limits are far, it makes no object of any charge.
    """

    __slots__ = (
        "_buckets", "_is_charged", "_loop", "_more_bytes", "_quotas", "_reset_us", "_shown", "_size_bytes",
        "is_stored", "late",
    )  # fmt: skip

    def __init__(
        self, quotas: TokenBuckets, buckets: tuple[Bucket, ...], size_bytes: int, shown: _Shown
    ) -> None:
        self._shown = shown
        self._quotas = quotas
        self._buckets = buckets
        self._size_bytes = size_bytes
        self._more_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._is_charged = True
        self.is_stored = True
        """Whether the data is stored even if the client leaves now: not while another server is to agree."""
        self.late: Awaitable[None] | None = None
        """The rest of the charge, to be awaited in the `with` block before anything is stored; None: none."""
        self._reset_us = quotas.take(buckets, size_bytes)
        if self._reset_us is None:
            late = quotas.charge_costs(costs_of(buckets, size_bytes))
            if late is not None:
                self._is_charged, self.late = False, self._charge_late(late)

    @property
    def address(self) -> str | None:
        """The key of the client's address; None if it is exempt."""
        return self._buckets[0][0][1] if len(self._buckets) > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_refused = kind is not None and (issubclass(kind, BridgeError) or not self.is_stored)
        if is_refused and self._is_charged:
            for size_bytes in (self._size_bytes, self._more_bytes):
                self._quotas.give_back(costs_of(self._buckets, size_bytes))

    def afford(self, size_bytes: int) -> None:
        """Charge further stored bytes, in the transaction's thread, at each run. Raises QuotaError."""
        self._quotas.require_costs(costs_of(self._buckets, size_bytes))
        self._loop.call_soon_threadsafe(self._pay, size_bytes)

    def declared_on(self, answer: web.Response) -> web.Response:
        """The answer with header fields about the client's limits, unless it is exempt."""
        if len(self._buckets) == 1:
            return answer
        if self._reset_us is not None and not self._more_bytes:
            declare_on(answer, *self._shown.standing(self._reset_us))
        else:
            declare([self._quotas.standing(*self._buckets[0])], answer)
        return answer

    async def _charge_late(self, late: Awaitable[None]) -> None:
        await late
        self._is_charged = True

    def _pay(self, size_bytes: int) -> None:
        if not self._more_bytes:
            self._more_bytes = size_bytes
            self._quotas.charge_what_is_left(costs_of(self._buckets, size_bytes))


def _cost(bucket: BucketId, limit: Limit, size_bytes: int) -> Cost:
    """The charge for this many bytes: a size beyond a whole bucket empties it."""
    return Cost(bucket[1], limit, min(size_bytes, limit.burst))


def costs_of(buckets: Sequence[Bucket], size_bytes: int) -> list[Cost]:
    """The charge of several buckets for this many bytes."""
    return [_cost(*bucket, size_bytes) for bucket in buckets]


@dataclass(frozen=True, slots=True)
class BucketsSaved(DomainEvent):
    """The buckets that `Quotas.take_unsaved` returned last are on disk."""


def save(buckets: list[SavedBucket]) -> Transaction[None]:
    """Store the buckets."""
    for bucket in buckets:
        yield Statement(_SAVE, bucket)
    if buckets:
        yield BucketsSaved()


class BucketStore:
    """Loads saved buckets, and deletes the full ones."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def load(self, now_us: int) -> list[SavedBucket]:
        """The buckets that are not full yet."""
        rows = await self.database.read(_LOAD, (now_us,))
        return [SavedBucket(*row) for row in rows]

    @transaction(turns=sweeping("buckets"))
    def sweep(self, now_ms: int) -> Transaction[int]:
        """Delete a slice of the buckets that are full again; returns how many."""
        return scalar(int, (yield Statement(SWEEP, (now_ms * 1000, _SWEEP_SLICE))))
