"""The bridge's rules (docs/protocol.md, B): writes, reads, sweeps."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from bridge_server.kernel.cache import Cached, ReadCache
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.secrets import IdMaker
from bridge_server.kernel.signals import Key, Signals
from bridge_server.kernel.sweeper import Sweep
from bridge_server.outbox.channels import marked_public, private_address
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.topics import TOPIC_WEBHOOK, Topic
from bridge_server.relay import models, wire
from bridge_server.relay.store import RelayStore, RelaySweepStore

_MINUTE_MS = 60_000
_SHARE_OF_SHORT_LIVES = 60

_LOOKED_UP_AT_ONCE = 128
"""Two batches of the readers: further reads would only wait there."""

_SLICE = 50
_SPAN = 1_000
_PATIENCE = 100_000


class Relay:
    """The relay's rules. Every method that changes something returns once the change is on disk."""

    def __init__(
        self, store: RelayStore, clock: Clock, ids: IdMaker, lifetimes: models.Lifetimes, caps: models.Caps
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._lifetimes = lifetimes
        self._caps = caps
        self._kept_ms = _kept_ms(lifetimes)

    async def open_session(self) -> models.OpenedSession:
        """Open an empty session. Sessions of one moment have neighbouring ids, so that inserts stay local."""
        now_ms = self._clock.now_ms()
        session_id = models.SessionId(self._ids.ordered_uuid(now_ms))
        expires_at_ms = now_ms + self._lifetimes.session_ms
        await self._store.create_session(session_id, expires_at_ms)
        return models.OpenedSession(session_id, expires_at_ms)

    async def update_session(self, session_id: models.SessionId, update: models.SessionUpdate) -> int:
        """Replace the session's payload; returns when the session expires now, in epoch milliseconds."""
        now_ms = self._clock.now_ms()
        expires_at_ms = now_ms + self._lifetimes.session_ms
        await self._store.update_session(session_id, update, now_ms, expires_at_ms)
        return expires_at_ms

    async def end_session(self, session_id: models.SessionId) -> None:
        """End the session and its calls."""
        await self._store.delete_session(session_id, self._clock.now_ms())

    async def request_call(
        self,
        session_id: models.SessionId,
        request: models.NewCall,
        client: str | None,
        afford: Callable[[int], None],
    ) -> models.CallId:
        """Store a call for the wallet, extend its session and queue its webhooks; returns its id.
        `client` is the address that the dapp counts to, None when it is exempt. Before webhooks are queued,
        `afford` is called in another thread with the bytes that they take; its errors are raised, and nothing
        is stored.
        """
        now_ms = self._clock.now_ms()
        call_id = models.CallId(self._ids.ordered_uuid(now_ms))
        call = models.StoredCall(
            call_id,
            session_id,
            request.payload,
            expires_at_ms=now_ms + self._lifetimes.call_ms,
            session_expires_at_ms=now_ms + self._lifetimes.session_ms,
            prolonged_if_before_ms=now_ms + self._kept_ms,
        )

        def messages_to(audience: models.CallAudience) -> Sequence[OutgoingMessage]:
            messages = self._messages(call, request.dapp_name, audience, client)
            if messages:
                afford(sum(message.size_bytes for message in messages))
            return messages

        await self._store.add_call(call, now_ms, self._caps.pending_calls, messages_to)
        return call_id

    async def answer_call(self, call_id: models.CallId, payload: models.Payload) -> None:
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
        """Remove the webhook that is gone from the notice's session or topic only: others may use its URL."""
        if notice.subject is not None:
            await self._store.forget_webhook(models.SessionId(notice.subject), notice.url)

    def _messages(
        self, call: models.StoredCall, dapp_name: str, audience: models.CallAudience, client: str | None
    ) -> list[OutgoingMessage]:
        session_id, new_id = call.session_id, self._ids.random_uuid

        def message(webhook: str, notice: bytes, purpose: Purpose) -> OutgoingMessage:
            return OutgoingMessage(new_id(), webhook, notice, purpose, client=client, subject=session_id)

        messages = [
            message(webhook, wire.write_topic_notice(session_id), TOPIC_WEBHOOK)
            for webhook in audience.webhooks
        ]
        if audience.push is not None:
            notice = wire.write_push_notice(call.session_id, call.call_id, audience.push, dapp_name)
            messages.append(message(audience.push.webhook, notice, models.CALL_WEBHOOK))
        return messages


def _kept_ms(lifetimes: models.Lifetimes) -> int:
    """The remaining lifetime from which on a call does not prolong its session. A prolongation is worth a
    write when it adds a minute, or a sixtieth of a lifetime of less than an hour. Without one, neither the
    call nor its status may outlive the session.
    """
    least_ms = min(_MINUTE_MS, lifetimes.session_ms // _SHARE_OF_SHORT_LIVES)
    return max(lifetimes.session_ms - least_ms, lifetimes.call_ms + lifetimes.status_ms)


# The reads of dapps and wallets, at once or by long poll, mostly from memory.
#
# Values are cached in the encoding that is sent to plain clients, so that a repeated read encodes nothing;
# other dialects wrap it. None means that there is no value yet.

OWNER_KINDS = ("statuses",)
"""The kinds of key that own cached values: the statuses of a session belong to its id."""

Stored = TypeVar("Stored")


class _Reading(NamedTuple, Generic[Stored]):
    """How a kind of thing is read: by its id, as of a time."""

    kind: str
    read: Callable[[Any, int], Awaitable[Stored]]
    read_at_once: Callable[[Any, int], Stored | None]
    """None if it must be waited for."""
    shape: Callable[[Stored], Cached]


class RelayReads:
    """The relay's reads: bodies in the protocol's spelling, None after a wait in vain."""

    def __init__(self, store: RelayStore, cache: ReadCache, signals: Signals, clock: Clock) -> None:
        self._store = store
        self._cache = cache
        self._signals = signals
        self._clock = clock
        self._looking_up = asyncio.Semaphore(_LOOKED_UP_AT_ONCE)
        self._sessions = _Reading("session", store.session, store.session_at_once, _slot)
        self._calls = _Reading("calls", store.pending_calls, _later, _pending)
        self._statuses = _Reading("status", store.status, store.status_at_once, _status)

    def session(self, session_id: models.SessionId, wait_seconds: int) -> Awaitable[Cached | None]:
        """The session's payload. Raises SessionNotFoundError."""
        return self._poll(self._sessions, session_id, wait_seconds)

    def calls(self, session_id: models.SessionId, wait_seconds: int) -> Awaitable[Cached | None]:
        """The session's calls that have no status. Raises SessionNotFoundError."""
        return self._poll(self._calls, session_id, wait_seconds)

    def status(self, call_id: models.CallId, wait_seconds: int) -> Awaitable[Cached | None]:
        """The call's status. Raises CallNotFoundError."""
        return self._poll(self._statuses, call_id, wait_seconds)

    async def call(self, session_id: models.SessionId, call_id: models.CallId) -> tuple[bytes, int]:
        """One call, answered or not, and when it expires, in epoch milliseconds. Raises CallNotFoundError."""
        call = await self._store.call(session_id, call_id, self._clock.now_ms())
        return wire.write_payload(call.payload), call.expires_at_ms

    def _poll(self, reading: _Reading[Any], any_id: str, wait_seconds: int) -> Awaitable[Cached | None]:
        key, now_ms = (reading.kind, any_id), self._clock.now_ms()
        remembered = self._cache.get(key, now_ms)
        if remembered is not None and (remembered.value is not None or not wait_seconds):
            return _at_once(remembered)
        if wait_seconds:
            return self._signals.wait_for(key, partial(self._glance, reading, key), wait_seconds)
        stored = reading.read_at_once(any_id, now_ms)
        if stored is None:
            return self._cache.load(key, partial(reading.read, any_id, now_ms), reading.shape, now_ms)
        entry = reading.shape(stored)
        self._cache.remember(key, entry)
        return _at_once(entry)

    async def _glance(self, reading: _Reading[Any], key: Key) -> Cached | None:
        """Read without caching that there is no value: waiters wake at changes, and are many. Each waits for
        a place before the read: thousands may come at once, and each takes 2 KiB of memory.
        """
        async with self._looking_up:
            now_ms = self._clock.now_ms()
            entry = self._cache.get(key, now_ms) or await self._cache.load(
                key, partial(reading.read, key[1], now_ms), reading.shape, now_ms, keeps_empty=False
            )
            return None if entry.value is None else entry


def _later(_: str, __: int) -> None:
    """A session may have a hundred calls, which are not read at once."""


async def _at_once(entry: Cached) -> Cached:
    return entry


def _slot(slot: models.Slot) -> Cached:
    body = None if slot.payload is None else wire.write_payload(slot.payload)
    return Cached(body, slot.expires_at_ms)


def _status(slot: models.StatusSlot) -> Cached:
    """The value of a status, owned by the session: the end of a session touches only pending calls' keys."""
    body = None if slot.payload is None else wire.write_payload(slot.payload)
    return Cached(body, slot.expires_at_ms, owner=(OWNER_KINDS[0], slot.session_id))


def _pending(pending: models.PendingCalls) -> Cached:
    body = wire.write_calls(pending.calls) if pending.calls else None
    expiries = [call.expires_at_ms for call in pending.calls]
    return Cached(body, min([pending.session_expires_at_ms, *expiries]))


# Deletes sessions and calls that have expired, without an index of expiries: by walking through the tables.
#
# An index would be written at every change, and read once a minute. Rows lie in the order in which they were
# made, which is nearly the order in which they expire; living rows are passed over.

SweepSlice: TypeAlias = Callable[[int, int, int, int], Awaitable[models.SweptSlice]]
"""Sweeps a slice as of a time: after which number, how many numbers to read, how many rows to delete."""


def relay_sweeps(store: RelaySweepStore) -> tuple[Sweep, ...]:
    """The sweeps of the relay. Calls go before their sessions."""
    webhooks = partial(store.sweep_webhooks, limit=_SLICE)
    return Walk(store.sweep_calls).sweep, Walk(store.sweep_sessions).sweep, webhooks


class Walk:
    """Goes round a table. A round that passes over very many living rows is continued at the next sweep."""

    def __init__(self, sweep_slice: SweepSlice, span: int = _SPAN, patience: int = _PATIENCE) -> None:
        self._sweep_slice = sweep_slice
        self._span = span
        self._patience = patience
        self._after = 0
        self._began_after = 0
        self._came_to_the_end = False
        self._passed = 0  # since a row was last deleted

    async def sweep(self, now_ms: int) -> int:
        """Sweep the next slice. Returns how many numbers were read; 0 when it is enough for now."""
        slice_ = await self._sweep_slice(now_ms, self._after, self._span, _SLICE)
        self._passed = 0 if slice_.deleted else self._passed + self._span
        if slice_.last is None:
            is_over = self._came_to_the_end or self._began_after == 0
            self._after, self._came_to_the_end = 0, True
        else:
            is_over = self._came_to_the_end and slice_.last >= self._began_after
            self._after = slice_.last
        if is_over or self._passed >= self._patience:
            self._began_after, self._came_to_the_end, self._passed = self._after, False, 0
            return 0
        return self._span


# The rule for webhooks that clients register by the LAN listener: they must be public.

WebhookRule: TypeAlias = Callable[[str, str], str]
"""Gets a webhook and the pointer to its member; returns the URL that is stored. Raises InvalidInputError."""


def public_webhook(webhook: str, pointer: str) -> str:
    """The webhook with the mark that keeps its messages from private addresses. Raises InvalidInputError."""
    reason = private_address(webhook)
    if reason is not None:
        fault = Fault(
            pointer, f"must lead to a public address, for this listener is open to others: {reason}"
        )
        raise InvalidInputError(
            "The webhook is private: register it on the server's own machine, by the loopback address.",
            [fault],
        )
    return marked_public(webhook)
