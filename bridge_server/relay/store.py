"""Sessions, calls, statuses and topic webhooks in SQL."""

from collections.abc import Callable, Sequence

from bridge_server.kernel.signals import Touched
from bridge_server.kernel.token_bucket import whole_seconds
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.store import enqueue
from bridge_server.relay import sql
from bridge_server.relay.errors import (
    CallNotFoundError,
    SessionNotFoundError,
    TooManyPendingCallsError,
)
from bridge_server.relay.models import (
    CallAudience,
    CallId,
    CallRequest,
    Keep,
    Payload,
    PendingCalls,
    PushDetails,
    SessionId,
    SessionUpdate,
    Slot,
    StatusSlot,
    StoredCall,
)
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Transaction,
    Turns,
    adding_transaction,
    transaction,
)
from bridge_server.storage.turns import alone
from bridge_server.topics.models import Topic
from bridge_server.topics.turns import of_topic
from bridge_server.topics.webhooks import (
    remove_all_webhooks,
    remove_webhook,
    subscribe_webhook,
    webhooks_of,
)

_MANY_ANSWERED = 32
"""The number of answered calls on the list from which the next call takes them off it."""


def _of_session(session_id: SessionId, *_: object, **__: object) -> Turns:
    return alone("session", session_id)


def _of_call(call: StoredCall, *_: object, **__: object) -> Turns:
    return alone("session", call.session_id)


class RelayStore:
    """Durable sessions, calls and statuses. Rows that have expired at `now_ms` count as deleted."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @adding_transaction
    def create_session(self, session_id: SessionId, expires_at_ms: int) -> Transaction[None]:
        """Store an empty session."""
        yield Statement(sql.INSERT_SESSION, (session_id, expires_at_ms))

    @adding_transaction
    def update_session(
        self, session_id: SessionId, update: SessionUpdate, now_ms: int, expires_at_ms: int
    ) -> Transaction[None]:
        """Replace the payload. Raises SessionNotFoundError."""
        ((changed,),) = yield _update_statement(session_id, update, now_ms, expires_at_ms)
        if not changed:
            raise SessionNotFoundError
        yield Touched(("session", session_id))

    @transaction(turns=_of_session)
    def delete_session(self, session_id: SessionId, now_ms: int) -> Transaction[None]:
        """End the session: nothing of it is known any more. Raises SessionNotFoundError."""
        rows = yield Statement(sql.END_SESSION, (session_id, now_ms))
        if not rows:
            raise SessionNotFoundError
        yield from remove_all_webhooks(session_id)
        for kind in ("session", "calls", "statuses"):
            yield Touched((kind, session_id))
        # A poll waits only for the status of a pending call, and pending calls are listed.
        for (call_id,) in (yield Statement(sql.LISTED_CALL_IDS, rows[0])):
            yield Touched(("status", call_id))

    async def session(self, session_id: SessionId, now_ms: int) -> Slot:
        """The session and its payload. Raises SessionNotFoundError."""
        rows = await self.database.read(sql.SESSION_PAYLOAD, (session_id, now_ms))
        if not rows:
            raise SessionNotFoundError
        return _slot(rows[0])

    @adding_transaction(turns=_of_call)
    def add_call(
        self,
        call: StoredCall,
        now_ms: int,
        pending_limit: int,
        messages_to: Callable[[CallAudience], Sequence[OutgoingMessage]],
    ) -> Transaction[None]:
        """Store a call, prolong its session if need be, queue the messages to its audience: all or nothing.

        Raises SessionNotFoundError, TooManyPendingCallsError.
        """
        rows = yield Statement(sql.SESSION_FOR_CALL, (now_ms, now_ms, call.session_id, now_ms))
        if not rows:
            raise SessionNotFoundError
        session, lives_until_ms, listed, has_webhooks, *push = rows[0]
        if listed >= min(pending_limit, _MANY_ANSWERED):
            yield from _check_pending(session, listed, pending_limit, now_ms)
        webhooks = (yield from webhooks_of(call.session_id, now_ms)) if has_webhooks else []
        is_heard = bool(webhooks) or push[0] is not None
        # The messages may be refused, and then nothing has been written yet.
        messages = messages_to(_audience(tuple(push), webhooks)) if is_heard else ()
        yield Statement(sql.INSERT_CALL, (call.call_id, session, call.expires_at_ms, call.payload))
        yield Touched(("calls", call.session_id))
        if lives_until_ms < call.prolonged_if_before_ms:
            yield Statement(sql.PROLONG_SESSION, (call.session_expires_at_ms, session))
            yield Touched(("session", call.session_id))
        for message in messages:
            yield from enqueue(message, now_ms)

    async def pending_calls(self, session_id: SessionId, now_ms: int) -> PendingCalls:
        """The session's calls without a status. Raises SessionNotFoundError."""
        rows = await self.database.read(sql.PENDING_CALLS, (now_ms, session_id, now_ms))
        if not rows:
            raise SessionNotFoundError
        return PendingCalls(
            calls=tuple(_call(row[1:]) for row in rows if row[1] is not None),
            session_expires_at_ms=rows[0][0],
        )

    async def call(self, session_id: SessionId, call_id: CallId, now_ms: int) -> CallRequest:
        """One call, answered or not. Raises CallNotFoundError."""
        rows = await self.database.read(sql.CALL, (call_id, session_id, now_ms, now_ms))
        if not rows:
            raise CallNotFoundError
        return _call(rows[0])

    @adding_transaction
    def set_status(
        self, call_id: CallId, payload: Payload, now_ms: int, expires_at_ms: int
    ) -> Transaction[None]:
        """Store the call's status, or replace it while it can be read. Raises CallNotFoundError."""
        rows = yield Statement(sql.CALL_FOR_STATUS, (call_id, now_ms, now_ms, now_ms))
        if not rows:
            raise CallNotFoundError
        call, session_id = rows[0]
        yield Statement(sql.UPSERT_STATUS, (call, expires_at_ms, payload))
        yield Touched(("status", call_id))
        yield Touched(("calls", session_id))

    async def status(self, call_id: CallId, now_ms: int) -> StatusSlot:
        """The call's status, if it has one. Raises CallNotFoundError."""
        rows = await self.database.read(sql.STATUS, (now_ms, now_ms, call_id, now_ms, now_ms))
        if not rows:
            raise CallNotFoundError
        return _status(rows[0])

    @adding_transaction(turns=of_topic)
    def subscribe(
        self, topic: Topic, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
    ) -> Transaction[None]:
        """Register the webhook for the topic, or renew it. Raises TooManyWebhooksError."""
        yield from subscribe_webhook(topic, webhook, now_ms, expires_at_ms, webhook_limit)

    @transaction
    def forget_webhook(self, session_id: SessionId, webhook: str) -> Transaction[None]:
        """Remove a webhook from the session, and from the topic of the same id."""
        yield from remove_webhook(session_id, webhook)
        yield Statement(sql.REMOVE_PUSH_TO, (session_id, webhook))


def _check_pending(session: int, listed: int, limit: int, now_ms: int) -> Transaction[None]:
    """Count the listed calls that are pending, and take answered calls off the list if they are many.

    Raises TooManyPendingCallsError.
    """
    ((pending, first_expiry_ms),) = yield Statement(sql.PENDING, (session, now_ms))
    if pending >= limit:
        retry_after = whole_seconds((first_expiry_ms - now_ms) * 1000)
        raise TooManyPendingCallsError(limit, retry_after)
    if listed - pending >= _MANY_ANSWERED:
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
    return Slot(None if payload is None else Payload(payload), expires_at_ms)


def _status(row: Row) -> StatusSlot:
    payload, expires_at_ms, session_id, session_expires_at_ms = row
    expires_first_ms = min(expires_at_ms, session_expires_at_ms)
    body = None if payload is None else Payload(payload)
    return StatusSlot(body, expires_first_ms, SessionId(session_id))


def _call(row: Row) -> CallRequest:
    call_id, payload, expires_at_ms = row
    return CallRequest(CallId(call_id), Payload(payload), expires_at_ms)


def _audience(push: Row, webhooks: list[str]) -> CallAudience:
    push_type, push_token, push_webhook = push
    return CallAudience(
        push=None if push_type is None else PushDetails(push_type, push_token, push_webhook),
        webhooks=tuple(webhooks),
    )
