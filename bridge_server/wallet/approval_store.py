"""Requests that a person must approve, in SQL."""

from collections.abc import Callable, Sequence

from bridge_server.kernel.signals import Touched
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Transaction,
    adding_transaction,
    scalar,
    transaction,
)
from bridge_server.storage.turns import sweeping
from bridge_server.wallet.events import ApprovalsChanged
from bridge_server.wallet.models import Address, ApprovalId, ApprovalRequest, ApprovalState, Caller

_COLUMNS = """
approval_id, method, address, subject, caller, origin, request_id, asked_at_ms, expires_at_ms, state
"""
_INSERT = f"INSERT INTO wallet_approvals ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_STORED = f"{_COLUMNS}, decided_at_ms"
_GET = f"SELECT {_STORED} FROM wallet_approvals WHERE approval_id = ?"  # noqa: S608
_NAMED = f"""
SELECT {_STORED} FROM wallet_approvals
WHERE approval_id >= ? AND approval_id < ? ORDER BY approval_id LIMIT 2
"""  # noqa: S608
_PENDING = f"""
SELECT {_STORED} FROM wallet_approvals WHERE state = 'pending' AND expires_at_ms > ? ORDER BY id
"""  # noqa: S608
# The data to sign may be large, and a list is long.
_LISTED = _STORED.replace("subject", "'' AS subject")
_WAITING_PAGE = f"""
SELECT id, {_LISTED} FROM wallet_approvals
WHERE state = 'pending' AND expires_at_ms > ? AND id < ? ORDER BY id DESC LIMIT ?
"""  # noqa: S608
_SETTLED_PAGE = f"""
SELECT id, {_LISTED} FROM wallet_approvals
WHERE id < ? AND NOT (state = 'pending' AND expires_at_ms > ?) ORDER BY id DESC LIMIT ?
"""  # noqa: S608
_DECIDE = """
UPDATE wallet_approvals SET state = ?, decided_at_ms = ?
WHERE approval_id = ? AND state = 'pending' AND expires_at_ms > ?
"""
_EXPIRE = """
UPDATE wallet_approvals SET state = 'expired', decided_at_ms = ? WHERE approval_id = ? AND state = 'pending'
"""
_EXPIRE_ALL = "UPDATE wallet_approvals SET state = 'expired', decided_at_ms = ? WHERE state = 'pending'"
SWEEP = """
DELETE FROM wallet_approvals WHERE id IN
    (SELECT id FROM wallet_approvals WHERE asked_at_ms <= ? ORDER BY asked_at_ms LIMIT ?)
"""

# Sorts after every character of an id.
_AFTER_ALL = "~"


class ApprovalStore:
    """Requests that wait for a decision. A command in another process decides."""

    def __init__(self, database: Database, fence: Callable[[], Transaction[None]] | None = None) -> None:
        """A request is added behind the `fence` of the process that has the wallet."""
        self.database = database
        self._fence = fence

    @adding_transaction
    def add(self, approval: ApprovalRequest) -> Transaction[None]:
        """Store a pending request."""
        if self._fence is not None:
            yield from self._fence()
        yield Statement(_INSERT, _row(approval))
        yield ApprovalsChanged()

    async def get(self, approval_id: ApprovalId) -> ApprovalRequest | None:
        """One request."""
        rows = await self.database.read(_GET, (approval_id,))
        return _approval(rows[0]) if rows else None

    async def named(self, beginning: str) -> Sequence[ApprovalRequest]:
        """At most two requests whose ids begin with this, in any state."""
        rows = await self.database.read(_NAMED, (beginning, beginning + _AFTER_ALL))
        return [_approval(row) for row in rows]

    async def pending(self, now_ms: int) -> Sequence[ApprovalRequest]:
        """Pending requests whose time is not over, oldest first."""
        return [_approval(row) for row in await self.database.read(_PENDING, (now_ms,))]

    async def waiting_page(
        self, now_ms: int, before: int, limit: int
    ) -> Sequence[tuple[int, ApprovalRequest]]:
        """Pending requests with smaller numbers, newest first, with their numbers but without subjects."""
        rows = await self.database.read(_WAITING_PAGE, (now_ms, before, limit))
        return [(row[0], _approval(row[1:])) for row in rows]

    async def settled_page(
        self, now_ms: int, before: int, limit: int
    ) -> Sequence[tuple[int, ApprovalRequest]]:
        """Requests that wait no more, with smaller numbers, newest first, with their numbers but without
        subjects.
        """
        rows = await self.database.read(_SETTLED_PAGE, (before, now_ms, limit))
        return [(row[0], _approval(row[1:])) for row in rows]

    @transaction
    def decide(self, approval_id: ApprovalId, state: ApprovalState, now_ms: int) -> Transaction[bool]:
        """Settle a pending request; False when it is not pending any more, or its time is over.

        Publishes `Touched`, for the client that waits, perhaps in another process.
        """
        if state is ApprovalState.EXPIRED:
            ((decided,),) = yield Statement(_EXPIRE, (now_ms, approval_id))
        else:
            ((decided,),) = yield Statement(_DECIDE, (state, now_ms, approval_id, now_ms))
        if decided:
            yield ApprovalsChanged()
            yield Touched(("approval", approval_id))
        return bool(decided)

    @transaction
    def expire_all(self, now_ms: int) -> Transaction[int]:
        """Expire all pending requests: a server that starts has no waiting clients. Returns how many."""
        return scalar(int, (yield Statement(_EXPIRE_ALL, (now_ms,))))

    @transaction(turns=sweeping("approvals"))
    def sweep(self, before_ms: int, limit: int) -> Transaction[int]:
        """Delete requests made up to then; returns how many."""
        return scalar(int, (yield Statement(SWEEP, (before_ms, limit))))


def _row(approval: ApprovalRequest) -> tuple[str | bytes | int | None, ...]:
    caller = approval.caller
    return (
        approval.approval_id,
        approval.method,
        approval.address,
        approval.subject,
        caller.address,
        caller.origin,
        caller.request_id,
        approval.asked_at_ms,
        approval.expires_at_ms,
        approval.state,
    )


def _approval(row: Row) -> ApprovalRequest:
    approval_id, method, address, subject, client, origin, request_id, *rest = row
    asked_at_ms, expires_at_ms, state, decided_at_ms = rest
    return ApprovalRequest(
        ApprovalId(approval_id),
        method,
        Address(address),
        subject or b"",
        Caller(client, origin, request_id),
        asked_at_ms,
        expires_at_ms,
        ApprovalState(state),
        decided_at_ms,
    )
