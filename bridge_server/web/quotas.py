"""Token buckets of callers (an address or a project): charged in memory, saved with the next commit.

A bucket that is full again within a second is not saved: it would be full by then.
"""

from collections.abc import Iterable, Sequence

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.token_bucket import Limit, Spending, reckoned_anew, spend
from bridge_server.web.charges import BucketId, Charge, Charged, Cost, QuotaError, SavedBucket

WORTH_SAVING_US = 1_000_000
_SAVED_SHARE = 100
_BUCKETS_BEFORE_PRUNING = 100_000


class Quotas:
    """Charges callers, each known by a key, to their buckets."""

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
        """Spend one token of each limit, and return the charges.

        Raises QuotaError, and then has spent none.
        """
        now_us = self._clock.now_us()
        self._follow(limits, now_us)
        full_at_us = self._full_at_us
        charges = [
            Charge(limit, spend(limit, full_at_us.get((limit.name, key), 0), now_us)) for limit in limits
        ]
        if not all(charge.spending.allowed for charge in charges):
            charges = [
                self._unspent(charge.limit, key, now_us) if charge.spending.allowed else charge
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
        is_worth_saving = any(charge.spending.reset_us > WORTH_SAVING_US for charge in charges)
        return Charged(charges, self._charged if is_worth_saving else 0)

    def charge_costs(self, costs: Sequence[Cost]) -> None:
        """Charge several buckets. Raises QuotaError, and then has charged none.

        Such a bucket is saved whenever a hundredth of its tokens was spent since: saving it with every commit
        would be slow.
        """
        now_us = self._clock.now_us()
        self._follow([limit for _, limit, _ in costs], now_us)
        charges = [self._spend(cost, now_us) for cost in costs]
        is_allowed = all(charge.spending.allowed for charge in charges)
        if not is_allowed:
            unspent = [Cost(key, limit, 0) for key, limit, _ in costs]
            charges = [
                self._spend(cost, now_us) if charge.spending.allowed else charge
                for cost, charge in zip(unspent, charges, strict=True)
            ]
        for (key, limit, _), charge in zip(costs, charges, strict=True):
            self._keep_roughly((limit.name, key), charge, now_us)
        if not is_allowed:
            raise QuotaError(charges)
        if len(self._full_at_us) > self._prune_above:
            self._prune(now_us)

    def take(self, bucket: BucketId, limit: Limit, tokens: int) -> bool:
        """Charge one bucket, as `charge_costs` does but quicker. False if it is to be charged by that: then
        nothing was charged.
        """
        now_us = self._clock.now_us()
        if self._interval_us.get(limit.name) != limit.interval_us:
            self._reckon_anew(limit, now_us)
        interval_us, gain = limit.interval_us, limit.gain
        full_at_us = max(self._full_at_us.get(bucket, 0), now_us) - (-tokens * interval_us // gain)
        window_us = -(-limit.burst * interval_us // gain)
        if full_at_us - now_us > window_us or len(self._full_at_us) > self._prune_above:
            return False
        self._full_at_us[bucket] = full_at_us
        if (full_at_us - max(self._saved_at_us.get(bucket, 0), now_us)) * _SAVED_SHARE >= window_us:
            self._mark(bucket, full_at_us)
        return True

    def standing(self, bucket: BucketId, limit: Limit) -> Charge:
        """The tokens that are left in a bucket."""
        return self._spend(Cost(bucket[1], limit, 0), self._clock.now_us())

    async def hold(self, _: Sequence[Cost]) -> None:
        """All tokens are at hand."""

    def require_costs(self, costs: Sequence[Cost]) -> None:
        """Charge nothing, and raise QuotaError if that could not be charged now. Any thread may ask."""
        now_us = self._clock.now_us()
        charges = [self._spend(cost, now_us) for cost in costs]
        if not all(charge.spending.allowed for charge in charges):
            raise QuotaError(charges)

    def give_back(self, costs: Sequence[Cost]) -> None:
        """Take charges back: the work was not done."""
        now_us = self._clock.now_us()
        for key, limit, tokens in costs:
            charge = self._spend(Cost(key, limit, -tokens), now_us)
            self._keep_roughly((limit.name, key), charge, now_us)

    def charge_what_is_left(self, costs: Sequence[Cost]) -> None:
        """Charge buckets for work that is done: a bucket with too few tokens is empty then."""
        now_us = self._clock.now_us()
        for key, limit, tokens in costs:
            left = self._spend(Cost(key, limit, 0), now_us).spending.remaining
            charge = self._spend(Cost(key, limit, min(tokens, left)), now_us)
            self._keep_roughly((limit.name, key), charge, now_us)

    def standings(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        """The tokens that the caller has left of each limit; nothing is spent."""
        now_us = self._clock.now_us()
        self._follow(limits, now_us)
        return Charged([self._unspent(limit, key, now_us) for limit in limits])

    @property
    def has_unsaved(self) -> bool:
        """Whether a bucket that is worth saving has changed."""
        return bool(self._unsaved or self._being_saved)

    def is_kept(self, charged: Charged) -> bool:
        """Whether the charge is on disk, as far as it is worth saving."""
        return charged.kept_at <= self._kept

    def take_unsaved(self) -> list[SavedBucket]:
        """The buckets that changed since they were last saved."""
        self._being_saved |= self._unsaved & self._full_at_us.keys()
        self._unsaved.clear()
        self._taken = self._charged
        return [
            SavedBucket(name, key, self._full_at_us[name, key], self._interval_us.get(name))
            for name, key in self._being_saved
        ]

    def forget_nothing(self) -> None:
        """Have every bucket that is not full saved next, however soon it would be full again."""
        now_us = self._clock.now_us()
        self._unsaved.update(bucket for bucket, full in self._full_at_us.items() if full > now_us)

    def forget_all(self) -> None:
        """Have every bucket full again, and nothing to save."""
        for buckets in (self._full_at_us, self._saved_at_us):
            buckets.clear()
        self._unsaved.clear()
        self._being_saved.clear()

    def saved(self) -> None:
        """Note that the buckets taken last are on disk. Until this is called, they are taken again."""
        self._being_saved.clear()
        self._kept = self._taken

    def restore(self, buckets: Iterable[SavedBucket]) -> None:
        """Take over buckets that were saved before a restart."""
        now_us = self._clock.now_us()
        for name, key, full_at_us, interval_us in buckets:
            if interval_us is not None:
                known_us = self._interval_us.setdefault(name, interval_us)
                full_at_us = reckoned_anew(full_at_us, now_us, interval_us, known_us)
            self._full_at_us[name, key] = full_at_us

    def _follow(self, limits: Sequence[Limit], now_us: int) -> None:
        """A limit that was changed counts from now on; the tokens that were used stay used."""
        for limit in limits:
            if self._interval_us.get(limit.name) != limit.interval_us:
                self._reckon_anew(limit, now_us)

    def _reckon_anew(self, limit: Limit, now_us: int) -> None:
        before_us = self._interval_us.get(limit.name, limit.interval_us)
        self._interval_us[limit.name] = limit.interval_us
        for bucket, full_at_us in self._full_at_us.items():
            if bucket[0] == limit.name:
                self._full_at_us[bucket] = reckoned_anew(
                    full_at_us, now_us, before_us, limit.interval_us, limit.gain
                )

    def _unspent(self, limit: Limit, key: str, now_us: int) -> Charge:
        return Charge(limit, spend(limit, self._full_at_us.get((limit.name, key), 0), now_us, cost=0))

    def _spend(self, cost: Cost, now_us: int) -> Charge:
        key, limit, tokens = cost
        return Charge(limit, spend(limit, self._full_at_us.get((limit.name, key), 0), now_us, tokens))

    def _keep_roughly(self, bucket: BucketId, charge: Charge, now_us: int) -> None:
        self._full_at_us[bucket] = full_at_us = charge.spending.full_at_us
        lost_us = full_at_us - max(self._saved_at_us.get(bucket, 0), now_us)
        if lost_us * _SAVED_SHARE >= charge.limit.window_us:
            self._mark(bucket, full_at_us)

    def _mark(self, bucket: BucketId, full_at_us: int) -> None:
        self._saved_at_us[bucket] = full_at_us
        self._unsaved.add(bucket)

    def _keep(self, bucket: BucketId, spending: Spending) -> None:
        self._full_at_us[bucket] = spending.full_at_us
        if spending.reset_us > WORTH_SAVING_US:
            self._unsaved.add(bucket)

    def _prune(self, now_us: int) -> None:
        self._full_at_us = {bucket: full for bucket, full in self._full_at_us.items() if full > now_us}
        self._saved_at_us = {bucket: at for bucket, at in self._saved_at_us.items() if at > now_us}
        self._being_saved &= self._full_at_us.keys()
        self._prune_above = max(_BUCKETS_BEFORE_PRUNING, 2 * len(self._full_at_us))
