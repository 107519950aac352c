"""Charges of requests to rate limits, and the header fields that report them."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from multidict import CIMultiDict

from bridge_server.kernel.errors import LimitError
from bridge_server.kernel.token_bucket import Limit, Spending, whole_seconds

BucketId: TypeAlias = tuple[str, str]
"""The limit's name and the caller's key."""


class SavedBucket(NamedTuple):
    """A bucket on disk: when it is full, and at how many microseconds a token that was reckoned."""

    limit_name: str
    key: str
    full_at_us: int
    interval_us: int | None
    """The interval of the limit at that time; None: as the limit is now."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of one request to one limit."""

    limit: Limit
    spending: Spending


@dataclass(frozen=True, slots=True)
class Charged:
    """The charges of a request, and the count of charges by which they are on disk: 0 needs no disk."""

    charges: list[Charge]
    kept_at: int = 0
    later: Awaitable["Charged"] | None = None
    """Gives the charges, where other processes charge these buckets, too."""


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
        super().__init__(
            f"The limit of {refused.limit.burst} {refused.limit.name} at once is used up. "
            f"Try again in {seconds} s.",
            seconds,
        )
        self.charges = charges
        self.limit_name = refused.limit.name


def declare(charges: list[Charge], headers: CIMultiDict[str]) -> None:
    """Add the RateLimit and RateLimit-Policy header fields for these charges.

    Headers about other limits stay.
    """
    if not charges:
        return
    policy = ", ".join(
        f'"{charge.limit.name}";q={charge.limit.burst};w={whole_seconds(charge.limit.window_us)}'
        for charge in charges
    )
    standing = ", ".join(
        f'"{charge.limit.name}";r={charge.spending.remaining};t={whole_seconds(charge.spending.reset_us)}'
        for charge in charges
    )
    for name, value in (("RateLimit-Policy", policy), ("RateLimit", standing)):
        headers[name] = f"{value}, {headers[name]}" if name in headers else value
