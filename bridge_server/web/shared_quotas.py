"""Token buckets of callers where several processes share a PostgreSQL database.

Limits of an authenticated caller, and those that are counted one by one, are spent in the database with each
request. The limits that each request, message or byte of an address is charged to are leased: a process takes
some tokens at once, and gives back what it has not used within a second.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.token_bucket import Limit, Spending, spend
from bridge_server.storage.postgres.bucket_charges import refusal
from bridge_server.storage.postgres.buckets import SharedBuckets
from bridge_server.web.charges import BucketId, Charge, Charged, Cost, QuotaError
from bridge_server.web.leases import Lease, lease_tokens

_LEASED = frozenset({"requests", "messages"})
_LEASE_SECONDS = 1.0
_LEASES_BEFORE_PRUNING = 100_000
_ATTEMPTS = 3


class SharedQuotas:
    """Charges callers, each known by a key, to buckets in the database."""

    def __init__(self, buckets: SharedBuckets, clock: Clock, others: Callable[[], int]) -> None:
        """`others` tells how many other processes there are."""
        self._buckets = buckets
        self._clock = clock
        self._others = others
        self._leases: dict[BucketId, Lease] = {}
        self._held: dict[BucketId, tuple[Limit, float]] = {}
        self._prune_above = _LEASES_BEFORE_PRUNING
        self._work: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Charge while inside; on leaving, give back what was not used."""
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
            if self.take((limit.name, key), limit, 1):
                return Charged([self.standing((limit.name, key), limit)])
        return Charged([], later=self._charge_later(key, limits))

    def standings(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        return Charged([], later=self._look(key, limits))

    def is_kept(self, _: Charged) -> bool:
        return True

    def take(self, bucket: BucketId, limit: Limit, tokens: int) -> bool:
        lease = self._leases.get(bucket)
        return lease is not None and lease.take(limit, tokens, self._clock.now_us())

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
        """The database is not asked: what counts is what it last said, and what was spent here since."""
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
        """One limit after the other. What was spent before a refusal is given back."""
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
        others = await self._look(key, limits[len(charges) :])
        raise QuotaError([*unspent, refused, *others.charges])

    async def _undo(self, key: str, charges: Sequence[Charge]) -> list[Charge]:
        with suppress(UnavailableError):
            return [Charge(each.limit, await self._spend(each.limit, key, -1)) for each in charges]
        return list(charges)

    async def _look(self, key: str, limits: Sequence[Limit]) -> Charged:
        return Charged([Charge(limit, await self._spend(limit, key, 0)) for limit in limits])

    async def _spend(self, limit: Limit, key: str, tokens: int) -> Spending:
        if limit.name in _LEASED or limit.name.endswith("-bytes"):
            return await self._spend_leased(limit, key, tokens)
        return (await self._buckets.spend(limit, key, tokens)).spending

    async def _have(self, limit: Limit, key: str, tokens: int) -> None:
        """Lease what is missing of these tokens, or nothing if there are fewer."""
        lease, now_us = self._lease(limit, key), self._clock.now_us()
        missing = tokens - lease.usable(limit, now_us)
        if missing <= 0:
            return
        wanted = max(missing, lease_tokens(limit))
        spent = await self._buckets.spend(limit, key, 0, extra=wanted, is_durable=False)
        lease.add(limit, spent.extra, spent.spending.full_at_us, self._others(), now_us, self._clock.now_us())
        if spent.extra:
            self._hold(limit, key)

    async def _spend_leased(self, limit: Limit, key: str, tokens: int) -> Spending:
        """Spend what is here, and ask for the rest and a lease."""
        bucket, now_us = (limit.name, key), self._clock.now_us()
        if tokens > 0 and self.take(bucket, limit, tokens):
            return self.standing(bucket, limit).spending
        lease = self._lease(limit, key)
        here = min(max(tokens, 0), lease.usable(limit, now_us))
        rest = tokens - here
        lease.tokens -= here
        lease.asking += here
        try:
            extra = max(0, lease_tokens(limit) - rest) if rest > 0 else 0
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
        self, limit: Limit, key: str, lease: Lease, tokens: int, here: int, spending: Spending
    ) -> Spending:
        """Keep what the database has answered; returns how the bucket and the lease are."""
        now_us = self._clock.now_us()
        lease.tokens += here
        if here and (limit.name, key) not in self._held:
            self._hold(limit, key)
        lease.full_at_us = spending.full_at_us
        return refusal(limit, lease.standing(limit, now_us).full_at_us, now_us, tokens)

    async def _charge_rest(self, limit: Limit, key: str, lease: Lease, unpaid: int) -> None:
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

    def _lease(self, limit: Limit, key: str) -> Lease:
        lease = self._leases.get((limit.name, key))
        if lease is None:
            if len(self._leases) >= self._prune_above:
                self._prune()
            lease = self._leases[limit.name, key] = Lease(limit.interval_us)
        return lease

    def _hold(self, limit: Limit, key: str) -> None:
        """Tokens are here, to be given back if they are not used. The oldest come first."""
        self._held.pop((limit.name, key), None)
        self._held[limit.name, key] = limit, asyncio.get_running_loop().time()

    async def _return_forever(self) -> None:
        while True:
            await asyncio.sleep(_LEASE_SECONDS / 2)
            self._return_those_before(asyncio.get_running_loop().time() - _LEASE_SECONDS)

    def _return_those_before(self, moment: float) -> None:
        """Give back what was leased before the moment and was not used."""
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
        """Forget buckets that are full, and nothing of which is here."""
        now_us = self._clock.now_us()
        self._leases = {
            bucket: lease
            for bucket, lease in self._leases.items()
            if lease.full_at_us > now_us or lease.tokens or lease.asking
        }
        self._prune_above = max(_LEASES_BEFORE_PRUNING, 2 * len(self._leases))

    def _do(self, work: Coroutine[None, None, None]) -> None:
        """In the background. Without the database nothing can be charged or given back."""
        task = asyncio.get_running_loop().create_task(_tried(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)


async def _tried(work: Coroutine[None, None, None]) -> None:
    with suppress(UnavailableError):
        await work
