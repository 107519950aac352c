"""Requests that wait to be approved, in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections.abc import Sequence
from typing import cast

from bridge_server.storage.database import Database, Row, Statement, Transaction
from bridge_server.wallet.models import Address, Approval, ApprovalId, ApprovalState, Caller

_COLUMNS = """
approval_id, method, address, subject, caller, origin, request_id, asked_at_ms, expires_at_ms, state
"""
_INSERT = f"INSERT INTO wallet_approvals ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_GET = f"SELECT {_COLUMNS} FROM wallet_approvals WHERE approval_id = ?"  # noqa: S608
_NAMED = f"""
SELECT {_COLUMNS} FROM wallet_approvals
WHERE approval_id >= ? AND approval_id < ? ORDER BY approval_id LIMIT 2
"""  # noqa: S608
_PENDING = f"""
SELECT {_COLUMNS} FROM wallet_approvals WHERE state = 'pending' AND expires_at_ms > ? ORDER BY id
"""  # noqa: S608
_DECIDE = """
UPDATE wallet_approvals SET state = ?, decided_at_ms = ?
WHERE approval_id = ? AND state = 'pending' AND expires_at_ms > ?
"""
_EXPIRE = """
UPDATE wallet_approvals SET state = 'expired', decided_at_ms = ? WHERE approval_id = ? AND state = 'pending'
"""
_EXPIRE_ALL = "UPDATE wallet_approvals SET state = 'expired', decided_at_ms = ? WHERE state = 'pending'"
_SWEEP = """
DELETE FROM wallet_approvals WHERE id IN
    (SELECT id FROM wallet_approvals WHERE asked_at_ms <= ? ORDER BY asked_at_ms LIMIT ?)
"""

# Sorts after every character of an id.
_AFTER_ALL = "~"


class SqlApprovalStore:
    """Implements the store of approvals on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, approval: Approval) -> None:
        def work() -> Transaction[None]:
            yield Statement(_INSERT, _row(approval))

        await self._database.transaction(work, adds=True)

    async def get(self, approval_id: ApprovalId) -> Approval | None:
        rows = await self._database.read(_GET, (approval_id,))
        return _approval(rows[0]) if rows else None

    async def named(self, beginning: str) -> Sequence[Approval]:
        rows = await self._database.read(_NAMED, (beginning, beginning + _AFTER_ALL))
        return [_approval(row) for row in rows]

    async def pending(self, now_ms: int) -> Sequence[Approval]:
        return [_approval(row) for row in await self._database.read(_PENDING, (now_ms,))]

    async def decide(self, approval_id: ApprovalId, state: ApprovalState, now_ms: int) -> bool:
        def work() -> Transaction[bool]:
            if state is ApprovalState.EXPIRED:
                ((decided,),) = yield Statement(_EXPIRE, (now_ms, approval_id))
            else:
                ((decided,),) = yield Statement(_DECIDE, (state, now_ms, approval_id, now_ms))
            return bool(decided)

        return await self._database.transaction(work)

    async def expire_all(self, now_ms: int) -> int:
        def work() -> Transaction[int]:
            ((expired,),) = yield Statement(_EXPIRE_ALL, (now_ms,))
            return cast(int, expired)

        return await self._database.transaction(work)

    async def sweep(self, before_ms: int, limit: int) -> int:
        def work() -> Transaction[int]:
            ((deleted,),) = yield Statement(_SWEEP, (before_ms, limit))
            return cast(int, deleted)

        return await self._database.transaction(work)


def _row(approval: Approval) -> tuple[str | bytes | int | None, ...]:
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


def _approval(row: Row) -> Approval:
    approval_id, method, address, subject, client, origin, request_id, asked_at_ms, expires_at_ms, state = row
    return Approval(
        ApprovalId(cast(str, approval_id)),
        cast(str, method),
        Address(cast(str, address)),
        cast(bytes, subject),
        Caller(cast(str, client), cast(str | None, origin), cast(str, request_id)),
        cast(int, asked_at_ms),
        cast(int, expires_at_ms),
        ApprovalState(cast(str, state)),
    )
