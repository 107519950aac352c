"""Writing use cases of the bridge: sessions, calls, statuses, subscriptions (docs/protocol.md, B)."""

from collections.abc import Callable, Sequence

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.relay import wire
from bridge_server.relay.models import (
    CALL_WEBHOOK,
    CallAudience,
    CallId,
    Caps,
    Lifetimes,
    NewCall,
    OpenedSession,
    Payload,
    SessionId,
    SessionUpdate,
    StoredCall,
)
from bridge_server.relay.store import RelayStore
from bridge_server.topics.models import TOPIC_WEBHOOK, Topic

_MINUTE_MS = 60_000
_SHARE_OF_SHORT_LIVES = 60


class Relay:
    """The relay's rules. Every method that changes something returns once the change is on disk."""

    def __init__(
        self, store: RelayStore, clock: Clock, ids: IdMaker, lifetimes: Lifetimes, caps: Caps
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._lifetimes = lifetimes
        self._caps = caps
        self._kept_ms = _kept_ms(lifetimes)

    async def open_session(self) -> OpenedSession:
        """Open an empty session. Sessions of one moment have neighbouring ids, so that inserts stay local."""
        now_ms = self._clock.now_ms()
        session_id = SessionId(self._ids.ordered_uuid(now_ms))
        expires_at_ms = now_ms + self._lifetimes.session_ms
        await self._store.create_session(session_id, expires_at_ms)
        return OpenedSession(session_id, expires_at_ms)

    async def update_session(self, session_id: SessionId, update: SessionUpdate) -> int:
        """Replace the session's payload; returns when the session expires now, in epoch milliseconds."""
        now_ms = self._clock.now_ms()
        expires_at_ms = now_ms + self._lifetimes.session_ms
        await self._store.update_session(session_id, update, now_ms, expires_at_ms)
        return expires_at_ms

    async def end_session(self, session_id: SessionId) -> None:
        """End the session and its calls."""
        await self._store.delete_session(session_id, self._clock.now_ms())

    async def request_call(
        self, session_id: SessionId, request: NewCall, client: str | None, afford: Callable[[int], None]
    ) -> CallId:
        """Store a call for the wallet and queue its webhooks; returns its id.

        The session's lifetime is extended, to the minute: most calls of a burst need not write its row.
        `client` is the address that the dapp counts to, None when it is exempt. Before webhooks are queued,
        `afford` is called in another thread with the bytes that they take; its errors are raised, and nothing
        is stored.
        """
        now_ms = self._clock.now_ms()
        call_id = CallId(self._ids.ordered_uuid(now_ms))
        call = StoredCall(
            call_id,
            session_id,
            request.payload,
            expires_at_ms=now_ms + self._lifetimes.call_ms,
            session_expires_at_ms=now_ms + self._lifetimes.session_ms,
            prolonged_if_before_ms=now_ms + self._kept_ms,
        )

        def messages_to(audience: CallAudience) -> Sequence[OutgoingMessage]:
            messages = self._messages(call, request.dapp_name, audience, client)
            if messages:
                afford(sum(message.size_bytes for message in messages))
            return messages

        await self._store.add_call(call, now_ms, self._caps.pending_calls, messages_to)
        return call_id

    async def answer_call(self, call_id: CallId, payload: Payload) -> None:
        """Store the wallet's status of a call; a later one replaces the earlier."""
        now_ms = self._clock.now_ms()
        await self._store.set_status(call_id, payload, now_ms, now_ms + self._lifetimes.status_ms)

    async def subscribe(self, topic: Topic, webhook: str) -> None:
        """Call the webhook when something happens on the topic, for as long as it is renewed."""
        now_ms = self._clock.now_ms()
        await self._store.subscribe(
            topic, webhook, now_ms, now_ms + self._lifetimes.subscription_ms, self._caps.topic_webhooks
        )

    async def forget_receiver(self, notice: OutgoingMessage) -> None:
        """Remove the webhook that has answered that it is gone, from the notice's session or topic only.

        Other sessions may use the same URL: a push server has one for all its clients.
        """
        if notice.subject is not None:
            await self._store.forget_webhook(SessionId(notice.subject), notice.url)

    def _messages(
        self, call: StoredCall, dapp_name: str, audience: CallAudience, client: str | None
    ) -> list[OutgoingMessage]:
        def message(webhook: str, notice: bytes, purpose: Purpose) -> OutgoingMessage:
            message_id = self._ids.random_uuid()
            return OutgoingMessage(
                message_id,
                webhook,
                notice,
                purpose,
                client=client,
                subject=call.session_id,
            )

        messages = [
            message(webhook, wire.write_topic_notice(call.session_id), TOPIC_WEBHOOK)
            for webhook in audience.webhooks
        ]
        if audience.push is not None:
            notice = wire.write_push_notice(call.session_id, call.call_id, audience.push, dapp_name)
            messages.append(message(audience.push.webhook, notice, CALL_WEBHOOK))
        return messages


def _kept_ms(lifetimes: Lifetimes) -> int:
    """The remaining lifetime from which on a call does not prolong its session.

    A prolongation is worth a write when it adds a minute, or a sixtieth of a lifetime of less than an hour.
    Without one, neither the call nor its status may outlive the session.
    """
    least_ms = min(_MINUTE_MS, lifetimes.session_ms // _SHARE_OF_SHORT_LIVES)
    return max(lifetimes.session_ms - least_ms, lifetimes.call_ms + lifetimes.status_ms)
