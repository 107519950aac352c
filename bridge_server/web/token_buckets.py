"""The token buckets of callers, as everything that charges requests uses them."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.charges import BucketId, Charge, Charged, Cost


class TokenBuckets(Protocol):
    """Charges callers, each known by a key, to their buckets.

    Where several processes share the buckets, a charge may have to wait for the database. Then it is what is
    awaited that raises QuotaError, or UnavailableError.
    """

    def charge(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        """Spend one token of each limit, and return the charges, at once or `later`.

        Raises QuotaError, and then has spent none.
        """
        ...

    def standings(self, key: str, limits: tuple[Limit, ...]) -> Charged:
        """The tokens that the caller has left of each limit, at once or `later`; nothing is spent."""
        ...

    def is_kept(self, charged: Charged) -> bool:
        """Whether the charge is on disk, as far as it is worth saving."""
        ...

    def take(self, bucket: BucketId, limit: Limit, tokens: int) -> bool:
        """Charge one bucket, as `charge_costs` does but quicker. False if it is to be charged by that: then
        nothing was charged.
        """
        ...

    def charge_costs(self, costs: Sequence[Cost]) -> Awaitable[None] | None:
        """Charge several buckets: at once, or when what is returned was awaited.

        Raises QuotaError, and then has charged none.
        """
        ...

    async def hold(self, costs: Sequence[Cost]) -> None:
        """Have these tokens at hand, or know what is left, for a transaction that asks with `require_costs`.

        Where several processes share the buckets, they go otherwise by what each has heard of a bucket last.
        """
        ...

    def require_costs(self, costs: Sequence[Cost]) -> None:
        """Charge nothing, and raise QuotaError if that could not be charged now."""
        ...

    def give_back(self, costs: Sequence[Cost]) -> None:
        """Take charges back: the work was not done."""
        ...

    def charge_what_is_left(self, costs: Sequence[Cost]) -> None:
        """Charge buckets for work that is done: a bucket with too few tokens is empty then."""
        ...

    def standing(self, bucket: BucketId, limit: Limit) -> Charge:
        """The tokens that are left in a bucket that was charged just now."""
        ...

    def forget_all(self) -> None:
        """Have every bucket full again: the rows of buckets in the database were deleted."""
        ...
