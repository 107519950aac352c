"""Tokens that a process has taken from a bucket in the database and may spend without asking.

A bucket is never worth more than its burst, so tokens that wait here while it fills have to lapse, as they
would have in the bucket. A process knows what it has spent just now and what its own tokens owe, and how many
tokens the others may hold at most: its own begin to lapse when all that is known to be spent has come back.
Thereby all processes together let through what one bucket would, or a little less.
"""

from dataclasses import dataclass

from bridge_server.kernel.token_bucket import Limit, Spending, spend

_SHARE = 50


def lease_tokens(limit: Limit) -> int:
    """The number of tokens that a process takes at once."""
    return max(1, limit.burst // _SHARE)


@dataclass(slots=True)
class Lease:
    """The tokens of one bucket in this process."""

    interval_us: int
    """The interval of the limit when the tokens were taken."""
    full_at_us: int = 0
    """The state of the bucket, as the database gave it last."""
    tokens: int = 0
    asking: int = 0
    """Tokens that make part of a charge for whose rest the database is being asked."""
    unpaid: int = 0
    """Tokens that were spent here beyond the lease, for which the database is still being asked."""
    ends_us: int = 0
    """The time at which the last token will have lapsed."""

    def usable(self, limit: Limit, now_us: int) -> int:
        """The tokens that have not lapsed."""
        if limit.interval_us != self.interval_us:
            return 0
        return max(0, min(self.tokens, (self.ends_us - now_us) * limit.gain // limit.interval_us))

    def take(self, limit: Limit, tokens: int, now_us: int) -> bool:
        """Spend tokens, if there are as many."""
        if self.usable(limit, now_us) < tokens:
            return False
        self.tokens -= tokens
        return True

    def add(
        self, limit: Limit, tokens: int, full_at_us: int, others: int, spent_until_us: int, now_us: int
    ) -> None:
        """The database has given tokens, and says when the bucket is full without them.

        `others` is the number of other processes. The tokens of the charge that asked have come back at
        `spent_until_us`, at the earliest.
        """
        self.tokens = self.usable(limit, now_us) + tokens
        self.interval_us = limit.interval_us
        self.full_at_us = full_at_us
        own_us = limit.price_us(self.tokens)
        of_others_us = others * limit.price_us(lease_tokens(limit))
        asked_us = limit.price_us(self.asking)
        known_us = full_at_us - own_us - asked_us - of_others_us
        self.ends_us = own_us + max(now_us, spent_until_us, known_us)

    def give_back(self, limit: Limit, tokens: int, now_us: int) -> None:
        """Tokens that were spent here are not any more: the others of the lease lapse earlier by that."""
        price_us = limit.price_us(tokens)
        self.full_at_us -= price_us
        own_us = limit.price_us(self.usable(limit, now_us))
        self.ends_us = max(self.ends_us - price_us, now_us + own_us)

    def standing(self, limit: Limit, now_us: int) -> Spending:
        """The bucket with the tokens that are here."""
        here_us = limit.price_us(self.usable(limit, now_us))
        return spend(limit, self.full_at_us - here_us, now_us, cost=0)
