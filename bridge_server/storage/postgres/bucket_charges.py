"""The charges of one bucket that wait together, and the database's answer to each of them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bridge_server.kernel.token_bucket import Limit, Spending, reckoned_anew, spend


@dataclass(frozen=True, slots=True)
class Spent:
    """The outcome of a charge, and its extra tokens."""

    spending: Spending
    extra: int = 0


@dataclass(slots=True, eq=False)
class WaitingCharge:
    """One charge that waits."""

    tokens: int
    """The tokens to charge; below 0 they are given back."""
    extra: int
    """Further tokens, which are taken if there are as many."""
    is_durable: bool
    done: asyncio.Future[Spent]


@dataclass(slots=True, eq=False)
class BucketCharges:
    """The charges of one bucket that wait, and how many of them, in their order, are attempted at once."""

    limit: Limit
    key: str
    asks: list[WaitingCharge] = field(default_factory=list)
    most: int | None = None
    """The tokens that were left the last time."""
    has_extra: bool = True

    def attempted(self) -> list[WaitingCharge]:
        """The charges that fit together; the first, if none does."""
        left = self.limit.burst if self.most is None else self.most
        fitting: list[WaitingCharge] = []
        for ask in self.asks:
            left -= ask.tokens
            if left < 0 and fitting:
                break
            fitting.append(ask)
        return fitting

    def extra_of(self, attempted: Sequence[WaitingCharge]) -> int:
        """The extra tokens that one of these has."""
        return max(ask.extra for ask in attempted) if self.has_extra else 0

    def allow(self, attempt: Sequence[WaitingCharge], extra: int, after_us: int, now_us: int) -> None:
        """Answer each charge with the bucket after it; the last charge has the extra tokens."""
        limit, later = self.limit, sum(ask.tokens for ask in attempt)
        for ask in attempt:
            later -= ask.tokens
            spending = spend(limit, after_us - limit.price_us(later), now_us, cost=0)
            _settle(ask, Spent(spending, extra if ask is attempt[-1] else 0))
        del self.asks[: len(attempt)]
        self.most, self.has_extra = spend(limit, after_us, now_us, cost=0).remaining, True

    def refuse(self, attempt: Sequence[WaitingCharge], extra: int, present_us: int, now_us: int) -> None:
        """Leave charges that may fit for the next attempt: without extra tokens, or fewer at once.

        A charge that does not fit alone is refused, with every charge of that moment that is no smaller.
        """
        if extra or len(attempt) > 1:
            self.has_extra = False
            left = spend(self.limit, present_us, now_us, cost=0).remaining
            together = sum(ask.tokens for ask in attempt)
            self.most = left if extra and together <= left else min(left, together - 1)
            return
        least = attempt[0].tokens
        refused = [ask for ask in self.asks if ask.tokens >= least]
        self.asks = [ask for ask in self.asks if ask.tokens < least]
        for ask in refused:
            _settle(ask, Spent(refusal(self.limit, present_us, now_us, ask.tokens)))


def present_of(limit: Limit, full_at_us: int | None, interval_us: int | None, now_us: int) -> int:
    """The bucket as it was when a charge was refused."""
    if full_at_us is None:
        return 0
    return reckoned_anew(full_at_us, now_us, interval_us or limit.interval_us, limit.interval_us, limit.gain)


def refusal(limit: Limit, full_at_us: int, now_us: int, tokens: int) -> Spending:
    """The refusal by what is known of the bucket, to which another process may have given back meanwhile."""
    found = spend(limit, full_at_us, now_us, tokens)
    if not found.allowed:
        return found
    return replace(spend(limit, full_at_us, now_us, cost=0), allowed=False, retry_after_us=1)


def _settle(ask: WaitingCharge, spent: Spent) -> None:
    if not ask.done.done():
        ask.done.set_result(spent)
