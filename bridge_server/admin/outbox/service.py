"""What an operator does with stored messages, beside the dispatcher that sends them."""

from collections.abc import Awaitable, Callable

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.message_store import DeadSlice, MessageStore
from bridge_server.outbox.models import Claimant
from bridge_server.outbox.stored import (
    MessageFilter,
    MessagePage,
    MessagePlace,
    StoredMessage,
    WholeMessage,
)


class OutboxDesk:
    """Lists, retries and drops messages. A message that is being sent at this moment is left alone."""

    def __init__(self, store: MessageStore, dispatcher: Dispatcher, clock: Clock) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._clock = clock

    def now_ms(self) -> int:
        """The time by which messages are due."""
        return self._clock.now_ms()

    async def page(self, wanted: MessageFilter, after: MessagePlace | None, limit: int) -> MessagePage:
        """Messages after this place, newest first."""
        return await self._store.page(wanted, after, limit, self._clock.now_ms())

    async def message(self, row_id: int, message_id: str) -> WholeMessage:
        """One message. Raises MessageNotFoundError."""
        return await self._store.whole(row_id, message_id)

    async def retry(self, row_id: int, message_id: str) -> StoredMessage:
        """Have a message sent now. Raises MessageNotFoundError, MessageBeingSentError."""
        with self._dispatcher.withheld(row_id, await self._claimant(row_id, message_id)):
            return await self._store.retry(row_id, message_id, self._clock.now_ms())

    async def drop(self, row_id: int, message_id: str) -> None:
        """Delete a message for good. Raises MessageNotFoundError, MessageBeingSentError."""
        with self._dispatcher.withheld(row_id, await self._claimant(row_id, message_id)):
            await self._store.drop(row_id, message_id)

    async def retry_dead(self, destination: str) -> int:
        """Have all dead letters of a destination sent now; returns how many."""
        return await retry_all_dead(self._store, destination, self._clock.now_ms())

    async def drop_dead(self, destination: str) -> int:
        """Delete all dead letters of a destination; returns how many."""
        return await drop_all_dead(self._store, destination, self._clock.now_ms())

    async def _claimant(self, row_id: int, message_id: str) -> Claimant:
        stored = await self._store.get(row_id, message_id)
        return Claimant(stored.queue, stored.client, stored.attempts > 0)


async def retry_all_dead(store: MessageStore, destination: str | None, now_ms: int) -> int:
    """Have dead letters sent now, of one destination or all (None); returns how many."""
    return await _in_slices(lambda after: store.retry_dead(destination, after, now_ms, now_ms))


async def drop_all_dead(store: MessageStore, destination: str | None, now_ms: int) -> int:
    """Delete dead letters, of one destination or all (None); returns how many."""
    return await _in_slices(lambda after: store.drop_dead(destination, after, now_ms))


async def _in_slices(change: Callable[[MessagePlace | None], Awaitable[DeadSlice]]) -> int:
    """Go through all dead letters in short transactions: a long one would keep other writers waiting."""
    done = await change(None)
    changed = done.changed
    while done.rest is not None:
        done = await change(done.rest)
        changed += done.changed
    return changed
