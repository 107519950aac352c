"""Sessions, calls, statuses and topic webhooks in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections.abc import Callable, Sequence
from typing import cast

from bridge_server.kernel.token_bucket import whole_seconds
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.relay.errors import (
    CallNotFoundError,
    SessionNotFoundError,
    TooManyPendingCallsError,
    TooManyWebhooksError,
)
from bridge_server.relay.models import (
    Audience,
    Call,
    CallId,
    Keep,
    Payload,
    PendingCalls,
    Push,
    SessionId,
    SessionUpdate,
    Slot,
    StatusSlot,
    StoredCall,
    SweptSlice,
    Topic,
)
from bridge_server.storage import relay_sql as sql
from bridge_server.storage.database import Announcement, Database, Row, Statement, Transaction
from bridge_server.storage.outbox_store import enqueue

_MANY_ANSWERED = 32
"""With so many answered calls that are listed, a session's list is gone through at its next call."""


def subscribe_webhook(
    topic: str, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
) -> Transaction[None]:
    """Register the webhook for the topic, within a transaction. Raises TooManyWebhooksError."""
    ((others,),) = yield Statement(sql.COUNT_OTHER_WEBHOOKS, (topic, webhook, now_ms))
    if cast(int, others) >= webhook_limit:
        raise TooManyWebhooksError(webhook_limit)
    yield Statement(sql.UPSERT_WEBHOOK, (topic, webhook, expires_at_ms))


def remove_webhook(topic: str, webhook: str) -> Transaction[None]:
    """Forget the webhook of the topic, within a transaction."""
    yield Statement(sql.DELETE_WEBHOOK, (topic, webhook))


class SqlRelayStore:
    """Implements the relay's store on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_session(self, session_id: SessionId, expires_at_ms: int) -> None:
        def work() -> Transaction[None]:
            yield Statement(sql.INSERT_SESSION, (session_id, expires_at_ms))

        await self._database.transaction(work, adds=True)

    async def update_session(
        self, session_id: SessionId, update: SessionUpdate, now_ms: int, expires_at_ms: int
    ) -> None:
        def work() -> Transaction[None]:
            ((changed,),) = yield _update_statement(session_id, update, now_ms, expires_at_ms)
            if not changed:
                raise SessionNotFoundError
            yield Announcement(("session", session_id))

        await self._database.transaction(work, adds=True)

    async def delete_session(self, session_id: SessionId, now_ms: int) -> None:
        def work() -> Transaction[None]:
            rows = yield Statement(sql.END_SESSION, (session_id, now_ms))
            if not rows:
                raise SessionNotFoundError
            yield Statement(sql.DELETE_TOPIC, (session_id,))
            for kind in ("session", "calls", "statuses"):
                yield Announcement((kind, session_id))
            # Who waits for a status waits for one of a pending call, and these are listed.
            for (call_id,) in (yield Statement(sql.LISTED_CALL_IDS, rows[0])):
                yield Announcement(("status", cast(str, call_id)))

        await self._database.transaction(work)

    async def session(self, session_id: SessionId, now_ms: int) -> Slot:
        rows = await self._database.read(sql.SESSION_PAYLOAD, (session_id, now_ms))
        if not rows:
            raise SessionNotFoundError
        return _slot(rows[0])

    async def add_call(
        self,
        call: StoredCall,
        now_ms: int,
        pending_limit: int,
        messages_to: Callable[[Audience], Sequence[OutgoingMessage]],
    ) -> None:
        def work() -> Transaction[None]:
            rows = yield Statement(sql.SESSION_FOR_CALL, (now_ms, now_ms, call.session_id, now_ms))
            if not rows:
                raise SessionNotFoundError
            session, lives_until_ms, listed, has_webhooks, *push = rows[0]
            if cast(int, listed) >= min(pending_limit, _MANY_ANSWERED):
                yield from _check_pending(cast(int, session), cast(int, listed), pending_limit, now_ms)
            webhooks: list[Row] = []
            if has_webhooks:
                webhooks = yield Statement(sql.WEBHOOKS_OF_TOPIC, (call.session_id, now_ms))
            is_heard = bool(webhooks) or push[0] is not None
            messages = messages_to(_audience(push, webhooks)) if is_heard else ()  # may refuse: first of all
            yield Statement(sql.INSERT_CALL, (call.call_id, session, call.expires_at_ms, call.payload))
            yield Announcement(("calls", call.session_id))
            if cast(int, lives_until_ms) < call.prolonged_if_before_ms:
                yield Statement(sql.PROLONG_SESSION, (call.session_expires_at_ms, session))
                yield Announcement(("session", call.session_id))
            for message in messages:
                yield from enqueue(message, now_ms)

        await self._database.transaction(work, adds=True)

    async def pending_calls(self, session_id: SessionId, now_ms: int) -> PendingCalls:
        rows = await self._database.read(sql.PENDING_CALLS, (now_ms, session_id, now_ms))
        if not rows:
            raise SessionNotFoundError
        return PendingCalls(
            calls=tuple(_call(row[1:]) for row in rows if row[1] is not None),
            session_expires_at_ms=cast(int, rows[0][0]),
        )

    async def call(self, session_id: SessionId, call_id: CallId, now_ms: int) -> Call:
        rows = await self._database.read(sql.CALL, (call_id, session_id, now_ms, now_ms))
        if not rows:
            raise CallNotFoundError
        return _call(rows[0])

    async def set_status(self, call_id: CallId, payload: Payload, now_ms: int, expires_at_ms: int) -> None:
        def work() -> Transaction[None]:
            rows = yield Statement(sql.CALL_FOR_STATUS, (call_id, now_ms, now_ms, now_ms))
            if not rows:
                raise CallNotFoundError
            call, session_id = rows[0]
            yield Statement(sql.UPSERT_STATUS, (call, expires_at_ms, payload))
            yield Announcement(("status", call_id))
            yield Announcement(("calls", cast(str, session_id)))

        await self._database.transaction(work, adds=True)

    async def status(self, call_id: CallId, now_ms: int) -> StatusSlot:
        rows = await self._database.read(sql.STATUS, (now_ms, now_ms, call_id, now_ms, now_ms))
        if not rows:
            raise CallNotFoundError
        return _status(rows[0])

    async def subscribe(
        self, topic: Topic, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
    ) -> None:
        await self._database.transaction(
            lambda: subscribe_webhook(topic, webhook, now_ms, expires_at_ms, webhook_limit), adds=True
        )

    async def forget_webhook(self, session_id: SessionId, webhook: str) -> None:
        def work() -> Transaction[None]:
            yield Statement(sql.DELETE_WEBHOOK, (session_id, webhook))
            yield Statement(sql.REMOVE_PUSH_TO, (session_id, webhook))

        await self._database.transaction(work)

    async def sweep_calls(self, now_ms: int, after: int, span: int, limit: int) -> SweptSlice:
        expired = await self._database.read(sql.EXPIRED_CALLS, (after, after + span, now_ms, limit))
        deleted = await self._delete_each(expired, sql.SWEEP_CALL, (now_ms, now_ms))
        return SweptSlice(deleted, await self._last(sql.NEXT_CALL, expired, after + span, limit))

    async def sweep_sessions(self, now_ms: int, after: int, span: int, limit: int) -> SweptSlice:
        expired = await self._database.read(sql.EXPIRED_SESSIONS, (after, after + span, now_ms, limit))
        deleted = await self._delete_each(expired, sql.SWEEP_SESSION, (now_ms,))
        return SweptSlice(deleted, await self._last(sql.NEXT_SESSION, expired, after + span, limit))

    async def _delete_each(self, numbers: list[Row], statement: str, times: tuple[int, ...]) -> int:
        def work() -> Transaction[int]:
            deleted = 0
            for (number,) in numbers:
                ((more,),) = yield Statement(statement, (number, *times))
                deleted += cast(int, more)
            return deleted

        return await self._database.transaction(work) if numbers else 0

    async def _last(self, next_statement: str, found: list[Row], end: int, limit: int) -> int | None:
        """The last number looked at, and those after it that name no row; None if none follows."""
        if len(found) == limit:
            return cast(int, found[-1][0])
        ((following,),) = await self._database.read(next_statement, (end,))
        return None if following is None else cast(int, following) - 1

    async def sweep_webhooks(self, now_ms: int, limit: int) -> int:
        def work() -> Transaction[int]:
            ((deleted,),) = yield Statement(sql.SWEEP_WEBHOOKS, (now_ms, limit))
            return cast(int, deleted)

        return await self._database.transaction(work)


def _check_pending(session: int, listed: int, limit: int, now_ms: int) -> Transaction[None]:
    """Count what is pending of what is listed, and list less if much of it is answered.

    Raises TooManyPendingCallsError.
    """
    ((pending, first_expiry_ms),) = yield Statement(sql.PENDING, (session, now_ms))
    if cast(int, pending) >= limit:
        retry_after = whole_seconds((cast(int, first_expiry_ms) - now_ms) * 1000)
        raise TooManyPendingCallsError(limit, retry_after)
    if listed - cast(int, pending) >= _MANY_ANSWERED:
        yield Statement(sql.UNLIST_ANSWERED, (session,))


def _update_statement(
    session_id: SessionId, update: SessionUpdate, now_ms: int, expires_at_ms: int
) -> Statement:
    condition = (session_id, now_ms)
    if update.push is Keep.KEEP:
        return Statement(sql.UPDATE_SESSION, (update.payload, expires_at_ms, *condition))
    push = update.push
    columns = (None, None, None) if push is None else (push.type, push.token, push.webhook)
    return Statement(sql.UPDATE_SESSION_AND_PUSH, (update.payload, expires_at_ms, *columns, *condition))


def _slot(row: Row) -> Slot:
    payload, expires_at_ms = row
    return Slot(None if payload is None else Payload(cast(bytes, payload)), cast(int, expires_at_ms))


def _status(row: Row) -> StatusSlot:
    payload, expires_at_ms, session_id, session_expires_at_ms = row
    expires_first_ms = min(cast(int, expires_at_ms), cast(int, session_expires_at_ms))
    body = None if payload is None else Payload(cast(bytes, payload))
    return StatusSlot(body, expires_first_ms, SessionId(cast(str, session_id)))


def _call(row: Row) -> Call:
    call_id, payload, expires_at_ms = row
    return Call(CallId(cast(str, call_id)), Payload(cast(bytes, payload)), cast(int, expires_at_ms))


def _audience(push: Sequence[object], webhooks: list[Row]) -> Audience:
    push_type, push_token, push_webhook = cast(tuple[str | None, str, str], tuple(push))
    return Audience(
        push=None if push_type is None else Push(push_type, push_token, push_webhook),
        webhooks=tuple(cast(str, webhook) for (webhook,) in webhooks),
    )
