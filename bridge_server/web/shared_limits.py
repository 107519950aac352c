"""Token buckets of callers where several processes share a PostgreSQL database. Each request is charged in
the database, but for the limits on requests, messages and bytes of an address, which are charged far more
often: of these a process leases tokens, a fiftieth of a bucket at a time, spends them without asking, and
returns what it has not used within about a second.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.token_bucket import Limit, Spending, spend
from bridge_server.kernel.values import dataclass
from bridge_server.storage.postgres.buckets import SharedBuckets, refusal
from bridge_server.web.limits import Bucket, BucketId, Charge, Charged, Cost, QuotaError, costs_of

_SHARE = 50

_LEASED = frozenset({"requests", "messages"})
_LEASE_SECONDS = 1.0
_LEASES_BEFORE_PRUNING = 100_000
_ATTEMPTS = 3


def _lease_tokens(limit: Limit) -> int:
    return max(1, limit.burst // _SHARE)


@dataclass(slots=True)
class _Lease:
    """Tokens of one bucket that this process has taken from the database, and may spend without asking.
    Bucket and leases together never exceed the burst: leased tokens expire as the bucket refills. They begin
    to expire once all tokens known to be spent have come back, by the time at which the bucket is full and
    the most that other processes may hold. All processes together let through at most what one bucket would.
    """

    interval_us: int
    """The interval of the limit when the tokens were taken."""
    full_at_us: int = 0
    """When the bucket is full again, as the database said last."""
    tokens: int = 0
    asking: int = 0
    """Leased tokens of charges that wait for the database to give their rest."""
    unpaid: int = 0
    """Tokens that were spent beyond the lease, and are being charged in the database."""
    ends_us: int = 0
    """The time at which the last token lapses."""

    def usable(self, limit: Limit, now_us: int) -> int:
        """The number of tokens that have not lapsed."""
        if limit.interval_us != self.interval_us:
            return 0
        return max(0, min(self.tokens, (self.ends_us - now_us) * limit.gain // limit.interval_us))

    def take(self, limit: Limit, tokens: int, now_us: int) -> bool:
        """Spend tokens of the lease; False, and none spent, if it has too few."""
        if self.usable(limit, now_us) < tokens:
            return False
        self.tokens -= tokens
        return True

    def add(
        self, limit: Limit, tokens: int, full_at_us: int, others: int, spent_until_us: int, now_us: int
    ) -> None:
        """Add tokens that the database has given; `full_at_us` is when the bucket is full again, as it says
        now. `others` is the number of other processes. The tokens of the charge that asked have come back at
        `spent_until_us` at the earliest.
        """
        self.tokens = self.usable(limit, now_us) + tokens
        self.interval_us = limit.interval_us
        self.full_at_us = full_at_us
        own_us = limit.price_us(self.tokens)
        of_others_us = others * limit.price_us(_lease_tokens(limit))
        asked_us = limit.price_us(self.asking)
        known_us = full_at_us - own_us - asked_us - of_others_us
        self.ends_us = own_us + max(now_us, spent_until_us, known_us)

    def give_back(self, limit: Limit, tokens: int, now_us: int) -> None:
        """Take back a charge whose tokens return to the database: the rest of the lease lapses earlier."""
        price_us = limit.price_us(tokens)
        self.full_at_us -= price_us
        own_us = limit.price_us(self.usable(limit, now_us))
        self.ends_us = max(self.ends_us - price_us, now_us + own_us)

    def standing(self, limit: Limit, now_us: int) -> Spending:
        """The state of the bucket, with the leased tokens in it."""
        here_us = limit.price_us(self.usable(limit, now_us))
        return spend(limit, self.full_at_us - here_us, now_us, cost=0)


class SharedQuotas:
    """Charges callers, each known by a key, to buckets in the database."""

    def __init__(self, buckets: SharedBuckets, clock: Clock, others: Callable[[], int]) -> None:
        """`others` returns the number of other processes."""
        self._buckets = buckets
        self._clock = clock
        self._others = others
        self._leases: dict[BucketId, _Lease] = {}
        self._held: dict[BucketId, tuple[Limit, float]] = {}
        self._prune_above = _LEASES_BEFORE_PRUNING
        self._work: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve charges inside the block; on leaving, return all unused leased tokens."""
        async with self._buckets.opened():
            try:
                async with running(self._return_forever()):
                    yield
            finally:
                self._return_those_before(float("inf"))
                while self._work:
                    await asyncio.wait(self._work)

    def charge(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        if len(limits) == 1 and limits[0].name in _LEASED:
            (limit,) = limits
            if self._take((limit.name, key), limit, 1):
                return Charged([self.standing((limit.name, key), limit)])
        return Charged([], later=self._charge_later(key, limits))

    def take_one_each(self, key: str, limits: Sequence[Limit]) -> None:
        """None, so that `charge` does it: only a lease knows what other processes may have spent."""

    def standings(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        return Charged([], later=self._check(key, limits))

    def is_kept(self, _: Charged) -> bool:
        return True

    def take(self, buckets: Sequence[Bucket], tokens: int) -> int | None:
        for position, (bucket, limit) in enumerate(buckets):
            if not self._take(bucket, limit, min(tokens, limit.burst)):
                self.give_back(costs_of(buckets[:position], tokens))
                return None
        return self.standing(*buckets[0]).spending.reset_us

    async def charge_costs(self, costs: Sequence[Cost]) -> None:
        for position, (key, limit, tokens) in enumerate(costs):
            try:
                spending = await self._spend_leased(limit, key, tokens)
            except BaseException:
                self.give_back(costs[:position])
                raise
            if not spending.allowed:
                self.give_back(costs[:position])
                charges = [self.standing((each.name, other), each) for other, each, _ in costs]
                charges[position] = Charge(limit, spending)
                raise QuotaError(charges)

    async def hold(self, costs: Sequence[Cost]) -> None:
        await asyncio.gather(*(self._have(limit, key, tokens) for key, limit, tokens in costs))

    def require_costs(self, costs: Sequence[Cost]) -> None:
        """Decide without a query: by the database's last answer, and the tokens spent here since."""
        now_us = self._clock.now_us()
        charges = []
        for key, limit, tokens in costs:
            bucket = (limit.name, key)
            full_at_us = max(now_us, self.standing(bucket, limit).spending.full_at_us)
            unpaid = self._leases[bucket].unpaid if bucket in self._leases else 0
            charges.append(Charge(limit, spend(limit, full_at_us + limit.price_us(unpaid), now_us, tokens)))
        if not all(charge.spending.allowed for charge in charges):
            raise QuotaError(charges)

    def give_back(self, costs: Sequence[Cost]) -> None:
        for key, limit, tokens in costs:
            if tokens:
                self._lease(limit, key).give_back(limit, tokens, self._clock.now_us())
                self._do(self._return(limit, key, tokens))

    def charge_what_is_left(self, costs: Sequence[Cost]) -> None:
        now_us = self._clock.now_us()
        for key, limit, tokens in costs:
            lease = self._lease(limit, key)
            here = min(tokens, lease.usable(limit, now_us))
            lease.tokens -= here
            if rest := tokens - here:
                lease.unpaid += rest
                self._do(self._charge_rest(limit, key, lease, rest))

    def standing(self, bucket: BucketId, limit: Limit) -> Charge:
        lease, now_us = self._leases.get(bucket), self._clock.now_us()
        if lease is None:
            return Charge(limit, spend(limit, 0, now_us, cost=0))
        return Charge(limit, lease.standing(limit, now_us))

    def forget_all(self) -> None:
        self._leases.clear()
        self._held.clear()

    async def _charge_later(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        """Charge one limit after the other in the database. On a refusal, take the earlier charges back."""
        charges: list[Charge] = []
        try:
            for limit in limits:
                charges.append(Charge(limit, await self._spend(limit, key, 1)))
                if not charges[-1].spending.allowed:
                    break
            else:
                return Charged(charges)
        except UnavailableError:
            await self._undo(key, charges)
            raise
        *spent, refused = charges
        unspent = await self._undo(key, spent)
        others = await self._check(key, limits[len(charges) :])
        raise QuotaError([*unspent, refused, *others.charges])

    async def _undo(self, key: str, charges: Sequence[Charge]) -> list[Charge]:
        with suppress(UnavailableError):
            return [Charge(each.limit, await self._spend(each.limit, key, -1)) for each in charges]
        return list(charges)

    async def _check(self, key: str, limits: Sequence[Limit]) -> Charged:
        return Charged([Charge(limit, await self._spend(limit, key, 0)) for limit in limits])

    async def _spend(self, limit: Limit, key: str, tokens: int) -> Spending:
        if limit.name in _LEASED or limit.name.endswith("-bytes"):
            return await self._spend_leased(limit, key, tokens)
        return (await self._buckets.spend(limit, key, tokens)).spending

    async def _have(self, limit: Limit, key: str, tokens: int) -> None:
        """Lease as many tokens as are missing; none if the bucket has too few."""
        lease, now_us = self._lease(limit, key), self._clock.now_us()
        missing = tokens - lease.usable(limit, now_us)
        if missing <= 0:
            return
        wanted = max(missing, _lease_tokens(limit))
        spent = await self._buckets.spend(limit, key, 0, extra=wanted, is_durable=False)
        lease.add(limit, spent.extra, spent.spending.full_at_us, self._others(), now_us, self._clock.now_us())
        if spent.extra:
            self._hold(limit, key)

    def _take(self, bucket: BucketId, limit: Limit, tokens: int) -> bool:
        """Spend leased tokens; False, and none spent, if there are too few."""
        lease = self._leases.get(bucket)
        return lease is not None and lease.take(limit, tokens, self._clock.now_us())

    async def _spend_leased(self, limit: Limit, key: str, tokens: int) -> Spending:
        """Spend leased tokens, and ask the database for the rest, together with a new lease."""
        bucket, now_us = (limit.name, key), self._clock.now_us()
        if tokens > 0 and self._take(bucket, limit, tokens):
            return self.standing(bucket, limit).spending
        lease = self._lease(limit, key)
        here = min(max(tokens, 0), lease.usable(limit, now_us))
        rest = tokens - here
        lease.tokens -= here
        lease.asking += here
        try:
            extra = max(0, _lease_tokens(limit) - rest) if rest > 0 else 0
            spent = await self._buckets.spend(limit, key, rest, extra=extra, is_durable=False)
        except BaseException:
            lease.tokens += here
            raise
        finally:
            lease.asking -= here
        if not spent.spending.allowed:
            return self._refused(limit, key, lease, tokens, here, spent.spending)
        spent_until_us, now_us = now_us + limit.price_us(max(tokens, 0)), self._clock.now_us()
        lease.add(limit, spent.extra, spent.spending.full_at_us, self._others(), spent_until_us, now_us)
        if spent.extra:
            self._hold(limit, key)
        return lease.standing(limit, now_us)

    def _refused(
        self, limit: Limit, key: str, lease: _Lease, tokens: int, here: int, spending: Spending
    ) -> Spending:
        """Note that the database has refused a charge; returns the refusal, with the leased tokens in it."""
        now_us = self._clock.now_us()
        lease.tokens += here
        if here and (limit.name, key) not in self._held:
            self._hold(limit, key)
        lease.full_at_us = spending.full_at_us
        return refusal(limit, lease.standing(limit, now_us).full_at_us, now_us, tokens)

    async def _charge_rest(self, limit: Limit, key: str, lease: _Lease, unpaid: int) -> None:
        tokens = unpaid
        try:
            for _ in range(_ATTEMPTS):
                spending = await self._spend_leased(limit, key, tokens)
                tokens = min(tokens, spending.remaining)
                if spending.allowed or not tokens:
                    return
        finally:
            lease.unpaid -= unpaid

    async def _return(self, limit: Limit, key: str, tokens: int) -> None:
        spent = await self._buckets.spend(limit, key, -tokens, is_durable=False)
        lease = self._leases.get((limit.name, key))
        if lease is not None and lease.interval_us == limit.interval_us:
            lease.full_at_us = spent.spending.full_at_us

    def _lease(self, limit: Limit, key: str) -> _Lease:
        lease = self._leases.get((limit.name, key))
        if lease is None:
            if len(self._leases) >= self._prune_above:
                self._prune()
            lease = self._leases[limit.name, key] = _Lease(limit.interval_us)
        return lease

    def _hold(self, limit: Limit, key: str) -> None:
        """Note a new lease, whose tokens are returned unless they are used. The oldest leases come first."""
        self._held.pop((limit.name, key), None)
        self._held[limit.name, key] = limit, asyncio.get_running_loop().time()

    async def _return_forever(self) -> None:
        while True:
            await asyncio.sleep(_LEASE_SECONDS / 2)
            self._return_those_before(asyncio.get_running_loop().time() - _LEASE_SECONDS)

    def _return_those_before(self, moment: float) -> None:
        """Return unused tokens that were leased before `moment`, a time of the event loop."""
        now_us = self._clock.now_us()
        while self._held:
            bucket, (limit, since) = next(iter(self._held.items()))
            if since > moment:
                return
            del self._held[bucket]
            lease = self._lease(limit, bucket[1])
            usable, lease.tokens = lease.usable(limit, now_us), 0
            if usable:
                self._do(self._return(limit, bucket[1], usable))

    def _prune(self) -> None:
        now_us = self._clock.now_us()
        self._leases = {
            bucket: lease
            for bucket, lease in self._leases.items()
            if lease.full_at_us > now_us or lease.tokens or lease.asking
        }
        self._prune_above = max(_LEASES_BEFORE_PRUNING, 2 * len(self._leases))

    def _do(self, work: Coroutine[None, None, None]) -> None:
        """Do the work in the background. It is dropped while the database is away."""
        task = asyncio.get_running_loop().create_task(_tried(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)


async def _tried(work: Coroutine[None, None, None]) -> None:
    with suppress(UnavailableError):
        await work
