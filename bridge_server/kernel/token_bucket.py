"""Token buckets as one number each: `full_at_us`, the moment at which the bucket is full again (GCRA).
Spending moves it into the future; a moment that has passed is a full bucket, which needs no record. Integer
microseconds throughout.
"""

from dataclasses import field
from math import ceil

from bridge_server.kernel.values import dataclass

MICROSECONDS = 1_000_000


@dataclass(slots=True)
class Limit:
    """A named limit: `burst` tokens at once, `gain` more every `interval_us` microseconds. A gain above 1
    makes the rate finer than one token in whole microseconds. It is a constant of the name. The limits that
    settings make are rewritten in place, field by field, when the settings are read again.
    """

    name: str
    burst: int
    interval_us: int
    gain: int = 1
    token_us: int = field(init=False)
    """The time in which one token comes back."""
    window_us: int = field(init=False)
    """The time in which an empty bucket fills."""

    def __post_init__(self) -> None:
        self.token_us, self.window_us = self.price_us(1), self.price_us(self.burst)

    def price_us(self, tokens: int) -> int:
        """The time in which these tokens come back, in whole microseconds, rounded up."""
        return -(-tokens * self.interval_us // self.gain)


@dataclass(frozen=True, slots=True)
class Spending:
    """The outcome of an attempt to spend. A refused attempt leaves `full_at_us` where it was."""

    allowed: bool
    full_at_us: int
    remaining: int
    retry_after_us: int
    reset_us: int


def per_second(name: str, rate: float, burst: int) -> Limit:
    """The limit of `rate` a second in the long run and `burst` at once."""
    return Limit(name, burst, max(1, round(MICROSECONDS / rate)))


def spend(limit: Limit, full_at_us: int, now_us: int, cost: int = 1) -> Spending:
    """Try to take `cost` tokens from the bucket that is full at `full_at_us`. A clock that was set back makes
    a bucket look emptier than empty; it then counts as just empty, so that no client gains a token or waits
    longer than one window.
    """
    interval_us, gain, window_us = limit.interval_us, limit.gain, limit.window_us
    start_us = min(max(full_at_us, now_us), now_us + window_us)
    after_us = start_us - (-cost * interval_us // gain)  # `price_us` itself: a call takes longer
    excess_us = after_us - now_us - window_us
    allowed = excess_us <= 0
    kept_us = after_us if allowed else start_us
    return Spending(
        allowed=allowed,
        full_at_us=kept_us,
        remaining=(window_us - (kept_us - now_us)) * gain // interval_us,
        retry_after_us=max(0, excess_us),
        reset_us=kept_us - now_us,
    )


def reckoned_anew(full_at_us: int, now_us: int, interval_us: int, new_interval_us: int, gain: int = 1) -> int:
    """When the bucket is full if it gains `gain` tokens every `new_interval_us` from now on: it owes as many
    tokens as it did, and a part of one counts whole.
    """
    if full_at_us <= now_us or interval_us == new_interval_us:
        return full_at_us
    tokens = -((now_us - full_at_us) * gain // interval_us)
    return now_us - (-tokens * new_interval_us // gain)


def whole_seconds(duration_us: int) -> int:
    """Microseconds as seconds, rounded up."""
    return ceil(duration_us / MICROSECONDS)
