"""The reads of dapps and wallets, at once or by long poll, mostly from memory.

Values are cached in the encoding that is sent to plain clients, so that a repeated read encodes nothing;
other dialects wrap it. None means that there is no value yet.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from bridge_server.kernel.cache import Cached, ReadCache
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Key, Signals
from bridge_server.relay import wire
from bridge_server.relay.models import CallId, Found, PendingCalls, SessionId, Slot, StatusSlot
from bridge_server.relay.store import RelayStore

_LOOKING_AT_ONCE = 128
"""Two batches of the readers: further reads would only wait there."""

OWNER_KINDS = ("statuses",)
"""The kinds of key that own cached values: the statuses of a session belong to its id."""

Read: TypeAlias = Callable[[Key, int], Awaitable[Cached]]
"""Reads what a key names, as of a time in milliseconds."""


class RelayReads:
    """The relay's reads."""

    def __init__(self, store: RelayStore, cache: ReadCache, signals: Signals, clock: Clock) -> None:
        self._store = store
        self._cache = cache
        self._signals = signals
        self._clock = clock
        self._looking = asyncio.Semaphore(_LOOKING_AT_ONCE)

    def session(self, session_id: SessionId, wait_seconds: int) -> Awaitable[Found | None]:
        """The session's payload. Raises SessionNotFoundError."""
        return self._poll(("session", session_id), self._read_session, wait_seconds)

    def calls(self, session_id: SessionId, wait_seconds: int) -> Awaitable[Found | None]:
        """The session's calls that have no status. Raises SessionNotFoundError."""
        return self._poll(("calls", session_id), self._read_calls, wait_seconds)

    def status(self, call_id: CallId, wait_seconds: int) -> Awaitable[Found | None]:
        """The call's status. Raises CallNotFoundError."""
        return self._poll(("status", call_id), self._read_status, wait_seconds)

    async def call(self, session_id: SessionId, call_id: CallId) -> Found:
        """One call, answered or not. Raises CallNotFoundError."""
        call = await self._store.call(session_id, call_id, self._clock.now_ms())
        return Found(wire.write_payload(call.payload), call.expires_at_ms)

    def _poll(self, key: Key, read: Read, wait_seconds: int) -> Awaitable[Found | None]:
        remembered = self._cache.get(key, self._clock.now_ms())
        if remembered is not None and (remembered.value is not None or not wait_seconds):
            return _at_once(remembered)
        if not wait_seconds:
            return self._look(key, read)
        return self._signals.wait_for(key, partial(self._glance_in_turn, key, read), wait_seconds)

    async def _glance_in_turn(self, key: Key, read: Read) -> Found | None:
        """Wait for a place before the read: thousands may come at once, and each takes 2 KiB of memory."""
        async with self._looking:
            return await self._glance(key, read)

    async def _look(self, key: Key, read: Read) -> Found | None:
        return _found(await self._load(key, read, self._clock.now_ms(), keeps_empty=True))

    async def _glance(self, key: Key, read: Read) -> Found | None:
        """Read without caching that there is no value: waiters wake at changes, and are many."""
        now_ms = self._clock.now_ms()
        return _found(self._cache.get(key, now_ms) or await self._load(key, read, now_ms, keeps_empty=False))

    async def _load(self, key: Key, read: Read, now_ms: int, *, keeps_empty: bool) -> Cached:
        entry = await self._cache.load(key, partial(read, key, now_ms), keeps_empty=keeps_empty)
        if entry.expires_at_ms > now_ms:
            return entry
        return await read(key, now_ms)  # another's read, begun a moment before the expiry

    async def _read_session(self, key: Key, now_ms: int) -> Cached:
        return _slot(await self._store.session(SessionId(key[1]), now_ms))

    async def _read_calls(self, key: Key, now_ms: int) -> Cached:
        return _pending(await self._store.pending_calls(SessionId(key[1]), now_ms))

    async def _read_status(self, key: Key, now_ms: int) -> Cached:
        return _status(await self._store.status(CallId(key[1]), now_ms))


async def _at_once(entry: Cached) -> Found | None:
    return _found(entry)


def _found(entry: Cached) -> Found | None:
    return None if entry.value is None else Found(entry.value, entry.expires_at_ms)


def _slot(slot: Slot) -> Cached:
    body = None if slot.payload is None else wire.write_payload(slot.payload)
    return Cached(body, slot.expires_at_ms)


def _status(slot: StatusSlot) -> Cached:
    """The value of a status, owned by the session: the end of a session touches only pending calls' keys."""
    body = None if slot.payload is None else wire.write_payload(slot.payload)
    return Cached(body, slot.expires_at_ms, owner=(OWNER_KINDS[0], slot.session_id))


def _pending(pending: PendingCalls) -> Cached:
    body = wire.write_calls(pending.calls) if pending.calls else None
    expiries = [call.expires_at_ms for call in pending.calls]
    return Cached(body, min([pending.session_expires_at_ms, *expiries]))
