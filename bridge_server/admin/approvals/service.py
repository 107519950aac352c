"""Requests for approval, for the operator of the running server."""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.wallet.approval_store import ApprovalStore
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.errors import ApprovalNotFoundError, ApprovalSettledError
from bridge_server.wallet.models import ApprovalRequest, ApprovalState

LEAST_OF_AN_ID = 4
"""The fewest characters that name a request: a script's empty variable must not select one."""

_BEYOND_ALL = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ApprovalPlace:
    """A place in the list: among waiting or among settled requests, by number."""

    is_settled: bool
    number: int


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Requests without their subjects, and the place after which more follow."""

    approvals: Sequence[ApprovalRequest]
    rest: ApprovalPlace | None


class ApprovalDesk:
    """Lists and decides requests. Their clients wait in this process, and are answered at once."""

    def __init__(self, store: ApprovalStore, approvals: Approvals, clock: Clock) -> None:
        self._store = store
        self._approvals = approvals
        self._clock = clock

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a decision."""
        return self._approvals.waiting

    def now_ms(self) -> int:
        """The time by which requests expire."""
        return self._clock.now_ms()

    async def page(self, after: ApprovalPlace | None, limit: int) -> ApprovalPage:
        """A page of requests for approval: waiting ones, then settled ones, each newest first."""
        now_ms, place = self._clock.now_ms(), after or ApprovalPlace(False, _BEYOND_ALL)
        found: list[tuple[ApprovalPlace, ApprovalRequest]] = []
        settled_before = place.number
        if not place.is_settled:
            waiting = await self._store.waiting_page(now_ms, place.number, limit + 1)
            found += [(ApprovalPlace(False, number), approval) for number, approval in waiting]
            settled_before = _BEYOND_ALL
        if len(found) <= limit:
            settled = await self._store.settled_page(now_ms, settled_before, limit + 1 - len(found))
            found += [(ApprovalPlace(True, number), approval) for number, approval in settled]
        has_more = len(found) > limit
        return ApprovalPage(
            [approval for _, approval in found[:limit]], found[limit - 1][0] if has_more else None
        )

    async def named(self, beginning: str) -> ApprovalRequest:
        """The request with this id, or the only one whose id begins so.

        Raises ApprovalNotFoundError; InvalidInputError when the beginning is short or several have it.
        """
        if len(beginning) < LEAST_OF_AN_ID:
            raise InvalidInputError(f"Write at least {LEAST_OF_AN_ID} characters of the approval's id.")
        found = await self._store.named(beginning.lower())
        if not found:
            raise ApprovalNotFoundError
        if len(found) > 1:
            raise InvalidInputError("Several approvals begin so: write more of the id.")
        return found[0]

    async def decide(self, beginning: str, decision: ApprovalState) -> ApprovalRequest:
        """Approve or reject. Raises ApprovalSettledError, and what `named` raises."""
        approval = await self.named(beginning)
        is_decided = await self._approvals.decide(approval.approval_id, decision)
        now = await self._store.get(approval.approval_id) or approval
        if not is_decided:
            raise ApprovalSettledError(now.state_at(self._clock.now_ms()))
        return now
