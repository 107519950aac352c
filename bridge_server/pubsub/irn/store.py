"""Subscriptions, messages and remembered calls of generation 2.x in the database."""

from collections.abc import Mapping, Sequence

import orjson

from bridge_server.kernel.events import DomainEvent
from bridge_server.pubsub.irn import sql
from bridge_server.pubsub.irn.holding import hold_for_changes
from bridge_server.pubsub.irn.models import (
    Change,
    ClientKey,
    Publishing,
    Subscribing,
    Unsubscribing,
    WaitingMessage,
)
from bridge_server.pubsub.irn.publishing import Publications
from bridge_server.pubsub.irn.rules import Applied, Rules
from bridge_server.pubsub.irn.subscribers import KnownSubscribers
from bridge_server.pubsub.irn.subscribing import IrnSubscriptions
from bridge_server.pubsub.irn.turns import turns_of_changes
from bridge_server.pubsub.queues.notices import Allowance, pay_for
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Transaction,
    json_array,
    scalar,
    transaction,
)
from bridge_server.storage.turns import sweeping
from bridge_server.topics.models import Topic


class IrnStore:
    """Rows that have expired at `now_ms` count as deleted.

    `notice_bytes` and `subscription_bytes` say what an address may have stored.
    """

    def __init__(self, database: Database, notice_bytes: Allowance, subscription_bytes: Allowance) -> None:
        self.database = database
        self._notice_bytes = notice_bytes
        self._subscription_bytes = subscription_bytes
        self.is_shared = database.takes_turns
        """Whether other processes use the same database."""
        self.subscribers = KnownSubscribers()
        """None where other processes change them."""

    async def newest(self) -> int:
        """The greatest number of a stored message, or 0."""
        return scalar(int, await self.database.read(sql.NEWEST))

    async def calls(self, now_ms: int) -> Sequence[tuple[str, int]]:
        """The remembered calls and their ends, the earliest end first."""
        return [
            (call, expires_at_ms) for call, expires_at_ms in await self.database.read(sql.CALLS, (now_ms,))
        ]

    async def subscriptions(self, client: ClientKey, now_ms: int) -> Mapping[Topic, int]:
        """The topics of a client, and when each subscription expires."""
        return dict(await self.database.read(sql.SUBSCRIPTIONS, (client, now_ms)))

    async def waiting(
        self, client: ClientKey, topics: Sequence[Topic], after: int, now_ms: int, limit: int
    ) -> Sequence[WaitingMessage]:
        """The messages that wait for a client on these topics with numbers above `after`, oldest first."""
        parameters = (client, after, json_array(topics), now_ms, limit)
        return [_message(row) for row in await self.database.read(sql.WAITING, parameters)]

    async def waiting_anywhere(
        self, client: ClientKey, positions: Mapping[Topic, int], now_ms: int, limit: int
    ) -> Sequence[WaitingMessage]:
        """Messages with numbers above the position of their topic, where several processes send messages.

        Also what another socket of the client has acknowledged lately. Across topics a message may appear
        after others with greater numbers: each topic has its own position.
        """
        parameters = (orjson.dumps(positions).decode(), client, now_ms, limit)
        return [_message(row) for row in await self.database.read(sql.WAITING_ANYWHERE, parameters)]

    async def fetchable(
        self, client: ClientKey, topics: Sequence[Topic], now_ms: int, limit: int
    ) -> Sequence[tuple[int, int]]:
        """The numbers and sizes of messages that a client may fetch from these topics, oldest first."""
        parameters = (client, now_ms, json_array(topics), limit)
        return [(number, size) for number, size in await self.database.read(sql.FETCHABLE, parameters)]

    async def by_numbers(self, numbers: Sequence[int]) -> Sequence[WaitingMessage]:
        """The messages with these numbers, oldest first."""
        return [_message(row) for row in await self.database.read(sql.BY_NUMBERS, (json_array(numbers),))]

    async def apply(
        self,
        changes: Sequence[Change],
        forgotten: int,
        received: Mapping[ClientKey, Sequence[int]],
        rules: Rules,
    ) -> Applied:
        """Store changes in their order, forget the oldest calls, and delete what clients have received.

        A change that is refused changes nothing, and is no reason to refuse the others.
        """
        if self.is_shared:
            await hold_for_changes(changes, self._notice_bytes, self._subscription_bytes)
        applied = await self._apply(changes, forgotten, received, rules)
        if not self.is_shared:
            self.subscribers.learn(applied.changed_topics, applied.subscribers)
        pay_for(applied.notice_bytes, self._notice_bytes)
        pay_for(applied.subscription_bytes, self._subscription_bytes)
        return applied

    @transaction(turns=turns_of_changes)
    def _apply(
        self,
        changes: Sequence[Change],
        forgotten: int,
        received: Mapping[ClientKey, Sequence[int]],
        rules: Rules,
    ) -> Transaction[Applied]:
        if forgotten:
            yield Statement(sql.FORGET_CALLS, (forgotten,))
        applied = yield from _apply(
            changes, rules, self._notice_bytes, self._subscription_bytes, is_full=self.database.is_full
        )
        yield from self._delete_received(received, rules.now_ms)
        return applied

    def _delete_received(self, received: Mapping[ClientKey, Sequence[int]], now_ms: int) -> Transaction[None]:
        if not received:
            return
        for client, numbers in received.items():
            yield Statement(sql.ACKNOWLEDGE, (client, json_array(numbers)))
        every = json_array({number for numbers in received.values() for number in numbers})
        if self.is_shared:
            yield Statement(sql.SETTLE_DELIVERED, (-now_ms, every))
        else:
            yield Statement(sql.DELETE_DELIVERED, (every,))

    @transaction
    def take_id_block(self) -> Transaction[int]:
        """The number of a block of ids that nobody has: 1 or more."""
        return scalar(int, (yield Statement(sql.TAKE_ID_BLOCK)))

    @transaction
    def announce(self, events: Sequence[DomainEvent]) -> Transaction[None]:
        """Have other processes hear events."""
        yield from events

    @transaction(turns=sweeping("irn"))
    def sweep(self, now_ms: int, limit: int) -> Transaction[int]:
        """Delete at most `limit` expired messages, subscriptions and calls each; returns how many."""
        swept = 0
        for statement in (sql.SWEEP_MESSAGES, sql.SWEEP_SUBSCRIPTIONS, sql.SWEEP_CALLS):
            swept += scalar(int, (yield Statement(statement, (now_ms, limit))))
        return swept


def _message(row: Row) -> WaitingMessage:
    return WaitingMessage(*row)


def _apply(
    changes: Sequence[Change],
    rules: Rules,
    notice_bytes: Allowance,
    subscription_bytes: Allowance,
    *,
    is_full: bool,
) -> Transaction[Applied]:
    """A part of a transaction: each change wholly or not at all, in their order."""
    applied = Applied()
    subscriptions = IrnSubscriptions(rules, applied, subscription_bytes, is_full=is_full)
    publications = Publications(rules, applied, subscriptions, notice_bytes, is_full=is_full)
    if rules.is_shared:
        yield from publications.ask_the_database([each for each in changes if isinstance(each, Publishing)])
    for position, change in enumerate(changes):
        refused = None
        match change:
            case Publishing() if not publications.is_done(change):
                refused = yield from publications.publish(change)
            case Subscribing():
                refused = yield from subscriptions.subscribe(change.client, change.address, change.topics)
            case Unsubscribing():
                yield from subscriptions.unsubscribe(change.client, change.topics)
        if refused is not None:
            applied.refused[position] = refused
    yield from publications.end()
    return applied
