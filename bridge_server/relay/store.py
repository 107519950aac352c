"""What the relay needs of a store. One method is one transaction, or one read."""

from collections.abc import Callable, Sequence
from typing import Protocol

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.relay.models import (
    Audience,
    Call,
    CallId,
    Payload,
    PendingCalls,
    SessionId,
    SessionUpdate,
    Slot,
    StatusSlot,
    StoredCall,
    SweptSlice,
    Topic,
)


class RelayStore(Protocol):
    """Durable sessions, calls and statuses. What has expired at `now_ms` is as if it were not there."""

    async def create_session(self, session_id: SessionId, expires_at_ms: int) -> None:
        """Store an empty session."""
        ...

    async def update_session(
        self, session_id: SessionId, update: SessionUpdate, now_ms: int, expires_at_ms: int
    ) -> None:
        """Replace the payload. Raises SessionNotFoundError."""
        ...

    async def delete_session(self, session_id: SessionId, now_ms: int) -> None:
        """End the session: nothing of it is known any more. Raises SessionNotFoundError."""
        ...

    async def session(self, session_id: SessionId, now_ms: int) -> Slot:
        """The session and its payload. Raises SessionNotFoundError."""
        ...

    async def add_call(
        self,
        call: StoredCall,
        now_ms: int,
        pending_limit: int,
        messages_to: Callable[[Audience], Sequence[OutgoingMessage]],
    ) -> None:
        """Store a call, prolong its session if need be, queue the messages to its audience: all or nothing.

        Raises SessionNotFoundError, TooManyPendingCallsError.
        """
        ...

    async def pending_calls(self, session_id: SessionId, now_ms: int) -> PendingCalls:
        """The session's calls without a status. Raises SessionNotFoundError."""
        ...

    async def call(self, session_id: SessionId, call_id: CallId, now_ms: int) -> Call:
        """One call, answered or not. Raises CallNotFoundError."""
        ...

    async def set_status(self, call_id: CallId, payload: Payload, now_ms: int, expires_at_ms: int) -> None:
        """Store the call's status, or replace one that can still be read. Raises CallNotFoundError."""
        ...

    async def status(self, call_id: CallId, now_ms: int) -> StatusSlot:
        """The call's status, if it has one. Raises CallNotFoundError."""
        ...

    async def subscribe(
        self, topic: Topic, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
    ) -> None:
        """Register the webhook for the topic, or renew it. Raises TooManyWebhooksError."""
        ...

    async def forget_webhook(self, session_id: SessionId, webhook: str) -> None:
        """Remove a webhook from the session, and from the topic of the same id."""
        ...

    async def sweep_calls(self, now_ms: int, after: int, span: int, limit: int) -> SweptSlice:
        """Look at the calls of the next `span` numbers; delete at most `limit` that have expired."""
        ...

    async def sweep_sessions(self, now_ms: int, after: int, span: int, limit: int) -> SweptSlice:
        """Look at the sessions of the next `span` numbers; delete at most `limit` that have expired."""
        ...

    async def sweep_webhooks(self, now_ms: int, limit: int) -> int:
        """Delete at most `limit` webhooks that have expired; returns how many."""
        ...
