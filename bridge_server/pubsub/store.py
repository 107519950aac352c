"""Messages that wait on topics, in SQL."""

from collections import Counter
from collections.abc import Mapping, Sequence

import orjson

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.pubsub import sql
from bridge_server.pubsub.events import MessagesStored
from bridge_server.pubsub.queues.errors import QueueFullError
from bridge_server.pubsub.queues.models import Changes, Message, QueueLimits
from bridge_server.pubsub.queues.notices import (
    Allowance,
    NoticeOf,
    Notices,
    hold_for_notices,
    pay_for,
    send_later,
)
from bridge_server.pubsub.queues.shares import Claim, Shares
from bridge_server.storage.database import Database, Row, Statement, Transaction, Turns, scalar, transaction
from bridge_server.storage.turns import each_once, striped, sweeping
from bridge_server.topics.models import Topic
from bridge_server.topics.turns import turn_of_topic


def _turns_of_changes(changes: Changes, *_: object, **__: object) -> Turns:
    """The topics and the addresses whose shares are counted."""
    messages = (*changes.kept, *changes.announced)
    topics = (turn_of_topic(message.topic) for message in messages)
    return each_once((*topics, *(striped("address", each.address) for each in messages if each.address)))


class TopicStore:
    """The messages that wait. Rows that have expired at `now_ms` count as deleted."""

    def __init__(self, database: Database, allowance: Allowance | None = None) -> None:
        self.database = database
        self._allowance = allowance

    async def newest(self) -> int:
        """The greatest number of a stored message, or 0."""
        return scalar(int, await self.database.read(sql.NEWEST))

    async def waiting(self, topic: Topic, now_ms: int) -> Sequence[Message]:
        """The topic's messages, oldest first."""
        return [_message(row) for row in await self.database.read(sql.WAITING, (topic, now_ms))]

    async def after(self, topic: Topic, number: int, now_ms: int, limit: int) -> Sequence[Message]:
        """The topic's messages with greater numbers, oldest first; also messages that were settled lately."""
        rows = await self.database.read(sql.AFTER, (topic, number, now_ms, limit))
        return [_message(row) for row in rows]

    async def apply(
        self, changes: Changes, now_ms: int, limits: QueueLimits, notice: NoticeOf
    ) -> Mapping[int, QueueFullError]:
        """Store, then delete, and queue a notice of each announced message to its topic's webhooks; all or
        nothing.

        Returns the errors of the messages that were not stored, by their numbers.
        """
        if self.database.takes_turns:
            await hold_for_notices(self._allowance, (message.address for message in changes.announced))
        refused, caused = await self._apply(changes, now_ms, limits, notice)
        pay_for(caused, self._allowance)
        return refused

    @transaction(turns=_turns_of_changes)
    def _apply(
        self, changes: Changes, now_ms: int, limits: QueueLimits, notice: NoticeOf
    ) -> Transaction[tuple[Mapping[int, QueueFullError], Counter[str | None]]]:
        refused = self._refusals(changes)
        notices = yield from self._notices(changes, refused, now_ms, notice)
        yield from _keep_each(changes.kept, refused, now_ms, limits)
        if changes.settled:
            yield self._settling(orjson.dumps(changes.settled).decode(), now_ms)
        if self.database.takes_turns:
            for topic in {each.topic for each in changes.kept if each.number not in refused}:
                yield MessagesStored(topic)
        owed = [message for number, message in notices if number not in refused]
        return refused, (yield from send_later(owed, now_ms))

    def _settling(self, numbers: str, now_ms: int) -> Statement:
        """Other processes may not have read the messages yet: a sweep deletes them, seconds later."""
        if self.database.takes_turns:
            return Statement(sql.SETTLE, (-now_ms, numbers))
        return Statement(sql.DELETE, (numbers,))

    def _notices(
        self, changes: Changes, refused: dict[int, QueueFullError], now_ms: int, notice: NoticeOf
    ) -> Transaction[list[tuple[int, OutgoingMessage]]]:
        """The notices of each announced message; a message beyond its address's allowance is refused."""
        owed = Notices(notice, self._allowance, now_ms)
        notices: list[tuple[int, OutgoingMessage]] = []
        for number, topic, _, _, address, _ in changes.announced:
            if number in refused:
                continue
            messages = yield from owed.of(topic, address)
            if messages is None:
                refused[number] = QueueFullError("your address")
            else:
                notices += [(number, message) for message in messages]
        return notices

    def _refusals(self, changes: Changes) -> dict[int, QueueFullError]:
        """The refusals of a full database, which takes no message and deletes settled ones all the same."""
        if not self.database.is_full:
            return {}
        return {
            message.number: QueueFullError("the server") for message in (*changes.kept, *changes.announced)
        }

    @transaction(turns=sweeping("topics"))
    def sweep(self, now_ms: int, limit: int) -> Transaction[int]:
        """Delete at most `limit` messages that have expired; returns how many."""
        return scalar(int, (yield Statement(sql.SWEEP, (now_ms, limit))))


def _keep_each(
    messages: Sequence[Message], refused: dict[int, QueueFullError], now_ms: int, limits: QueueLimits
) -> Transaction[None]:
    shares = Shares(now_ms)
    for message in messages:
        if message.number in refused:
            continue
        full = yield from _keep(message, limits, shares)
        if full is not None:
            refused[message.number] = full


def _keep(message: Message, limits: QueueLimits, shares: Shares) -> Transaction[QueueFullError | None]:
    number, topic, text, sender, address, expires_at_ms = message
    claims = [Claim(sql.SHARE_OF_TOPIC, topic, limits.topic, "the topic")]
    if address is not None:
        claims.append(Claim(sql.SHARE_OF_ADDRESS, address, limits.address, "your address"))
    size_bytes = len(text)
    full = yield from shares.take(claims, size_bytes)
    if full is None:
        yield Statement(sql.INSERT, (number, topic, text, size_bytes, sender, address, expires_at_ms))
    return full


def _message(row: Row) -> Message:
    return Message(*row)
