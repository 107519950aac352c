"""Deletes expired sessions, calls and topic webhooks in SQL."""

from bridge_server.relay import sql
from bridge_server.relay.models import SweptSlice
from bridge_server.storage.database import Database, Row, Statement, Transaction, scalar, transaction
from bridge_server.storage.turns import sweeping
from bridge_server.topics.webhooks import sweep_webhooks


class RelaySweepStore:
    """Rows that have expired at `now_ms` are deleted, a slice at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def sweep_calls(self, now_ms: int, after: int, span: int, limit: int) -> SweptSlice:
        """Look at the calls of the next `span` numbers; delete at most `limit` that have expired."""
        expired = await self.database.read(sql.EXPIRED_CALLS, (after, after + span, now_ms, limit))
        deleted = await self._delete_each(expired, sql.SWEEP_CALL, (now_ms, now_ms))
        return SweptSlice(deleted, await self._last(sql.NEXT_CALL, expired, after + span, limit))

    async def sweep_sessions(self, now_ms: int, after: int, span: int, limit: int) -> SweptSlice:
        """Look at the sessions of the next `span` numbers; delete at most `limit` that have expired."""
        expired = await self.database.read(sql.EXPIRED_SESSIONS, (after, after + span, now_ms, limit))
        deleted = await self._delete_each(expired, sql.SWEEP_SESSION, (now_ms,))
        return SweptSlice(deleted, await self._last(sql.NEXT_SESSION, expired, after + span, limit))

    async def _delete_each(self, numbers: list[Row], statement: str, times: tuple[int, ...]) -> int:
        return await self._delete(numbers, statement, times) if numbers else 0

    @transaction(turns=sweeping("relay"))
    def _delete(self, numbers: list[Row], statement: str, times: tuple[int, ...]) -> Transaction[int]:
        deleted = 0
        for (number,) in numbers:
            deleted += scalar(int, (yield Statement(statement, (number, *times))))
        return deleted

    async def _last(self, next_statement: str, found: list[Row], end: int, limit: int) -> int | None:
        """The last number looked at, and numbers after it that name no row; None if none follows."""
        if len(found) == limit:
            last: int = found[-1][0]
            return last
        following: int | None
        ((following,),) = await self.database.read(next_statement, (end,))
        return None if following is None else following - 1

    @transaction(turns=sweeping("webhooks"))
    def sweep_webhooks(self, now_ms: int, limit: int) -> Transaction[int]:
        """Delete at most `limit` webhooks that have expired; returns how many."""
        return (yield from sweep_webhooks(now_ms, limit))
