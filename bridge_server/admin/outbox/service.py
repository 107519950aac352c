"""What an operator does with stored messages, beside the dispatcher that sends them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from bridge_server.admin.outbox.purposes import PUSHES
from bridge_server.kernel.clock import Clock
from bridge_server.outbox.attempts import AttemptLog, DeliveryAttempt
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.errors import AttemptNotFoundError
from bridge_server.outbox.message_store import DeadSlice, MessageStore
from bridge_server.outbox.models import Claimant, OutgoingMessage
from bridge_server.outbox.stored import (
    MessageFilter,
    MessageKind,
    MessagePage,
    MessagePlace,
    MessageState,
    StoredMessage,
    WholeMessage,
)

HeadersOf: TypeAlias = Callable[[OutgoingMessage, int], Mapping[str, str]]
"""Makes the headers with which a webhook would be sent at a time."""


@dataclass(frozen=True, slots=True)
class AttemptFilter:
    """The attempts to list; None leaves a condition out."""

    kind: MessageKind | None = None
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """Attempts, newest first. `rest` is the number after which more follow, None at the end."""

    attempts: Sequence[DeliveryAttempt]
    rest: int | None


class OutboxDesk:
    """Lists, retries and drops messages. A message that is being sent at this moment is left alone."""

    def __init__(
        self,
        store: MessageStore,
        dispatcher: Dispatcher,
        clock: Clock,
        attempts: AttemptLog,
        headers_of: HeadersOf,
    ) -> None:
        self._attempts = attempts
        self._headers_of = headers_of
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

    def headers(self, whole: WholeMessage) -> Mapping[str, str]:
        """The headers with which a webhook would be sent now; a channel has none."""
        message = whole.message
        return self._headers_of(message, self.now_ms()) if message.channel in ("http", "https") else {}

    def attempts(self, wanted: AttemptFilter, before: int | None, limit: int) -> AttemptPage:
        """The last attempts to deliver, newest first."""
        fitting = (each for each in self._attempts.before(before) if _fits(each, wanted))
        found = list(islice(fitting, limit + 1))
        return AttemptPage(found[:limit], found[limit - 1].number if len(found) > limit else None)

    def attempts_of(self, message_id: str) -> Sequence[DeliveryAttempt]:
        """The attempts to deliver a message that are still kept, newest first."""
        return [each for each in self._attempts.before(None) if each.message_id == message_id]

    def attempt(self, number: int) -> DeliveryAttempt:
        """One attempt. Raises AttemptNotFoundError."""
        found = self._attempts.find(number)
        if found is None:
            raise AttemptNotFoundError
        return found

    def outcomes(self) -> Mapping[str, Mapping[str, int]]:
        """By channel, how many attempts since the start had each outcome."""
        return self._attempts.outcomes

    async def retry(self, row_id: int, message_id: str) -> StoredMessage:
        """Have a message sent now. Raises MessageNotFoundError, MessageBeingSentError."""
        async with await self._withheld(row_id, message_id):
            return await self._store.retry(row_id, message_id, self._clock.now_ms())

    async def drop(self, row_id: int, message_id: str) -> None:
        """Delete a message for good. Raises MessageNotFoundError, MessageBeingSentError."""
        async with await self._withheld(row_id, message_id):
            await self._store.drop(row_id, message_id)

    async def retry_dead(self, destination: str) -> int:
        """Have all dead letters of a destination sent now; returns how many."""
        return await retry_all_dead(self._store, destination, self._clock.now_ms())

    async def drop_dead(self, destination: str) -> int:
        """Delete all dead letters of a destination; returns how many."""
        return await drop_all_dead(self._store, destination, self._clock.now_ms())

    async def _withheld(self, row_id: int, message_id: str) -> AbstractAsyncContextManager[None]:
        stored = await self._store.get(row_id, message_id)
        claimant = Claimant(stored.queue, stored.client, stored.attempts > 0)
        is_due = stored.state(self._clock.now_ms()) is MessageState.DUE
        return self._dispatcher.withheld(row_id, claimant, is_due=is_due)


def _fits(attempt: DeliveryAttempt, wanted: AttemptFilter) -> bool:
    kind = MessageKind.PUSH if attempt.purpose in PUSHES else MessageKind.WEBHOOK
    return wanted.kind in (None, kind) and wanted.destination in (None, attempt.destination)


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
