"""Messages that wait on topics, in SQL."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import orjson

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.store import enqueue
from bridge_server.pubsub import sql
from bridge_server.pubsub.errors import QueueFullError
from bridge_server.pubsub.models import Changes, Message, QueueLimits
from bridge_server.storage.database import Database, Row, Statement, Transaction, scalar, transaction
from bridge_server.topics.models import Topic
from bridge_server.topics.webhooks import webhooks_of


@dataclass(slots=True)
class _Waiting:
    """How much waits on a topic, or from an address."""

    messages: int
    size_bytes: int


_Counted: TypeAlias = dict[tuple[str, str], _Waiting]
"""By the statement that reads it, and the topic or address."""


NoticeOf: TypeAlias = Callable[[Topic, str | None, str], OutgoingMessage]
"""Writes the notice to a webhook: given the topic, the address that the message counts to, the webhook."""


class Allowance(Protocol):
    """The bytes of notices that an address may cause; None is exempt."""

    def covers(self, address: str | None, size_bytes: int) -> bool:
        """Whether so many bytes are left. Any thread may call it."""
        ...

    def pay(self, address: str | None, size_bytes: int) -> None:
        """Charge the address for so many stored bytes."""
        ...


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

    async def apply(
        self, changes: Changes, now_ms: int, limits: QueueLimits, notice: NoticeOf
    ) -> Mapping[int, QueueFullError]:
        """Store, then delete, and queue a notice of each announced message to its topic's webhooks; all or
        nothing.

        Returns the errors of the messages that were not stored, by their numbers.
        """
        refused, caused = await self._apply(changes, now_ms, limits, notice)
        if self._allowance is not None:
            for address, size_bytes in caused.items():
                self._allowance.pay(address, size_bytes)
        return refused

    @transaction
    def _apply(
        self, changes: Changes, now_ms: int, limits: QueueLimits, notice: NoticeOf
    ) -> Transaction[tuple[Mapping[int, QueueFullError], Counter[str | None]]]:
        refused = self._refusals(changes)
        notices = yield from self._notices(changes, refused, now_ms, notice)
        yield from _keep_each(changes.kept, refused, now_ms, limits)
        if changes.settled:
            yield Statement(sql.DELETE, (orjson.dumps(changes.settled).decode(),))
        caused: Counter[str | None] = Counter()
        for number, message in notices:
            if number not in refused:
                caused[message.client] += message.size_bytes
                yield from enqueue(message, now_ms)
        return refused, caused

    def _notices(
        self, changes: Changes, refused: dict[int, QueueFullError], now_ms: int, notice: NoticeOf
    ) -> Transaction[list[tuple[int, OutgoingMessage]]]:
        """The notices of each announced message; a message beyond its address's allowance is refused."""
        webhooks: dict[Topic, list[str]] = {}
        caused: Counter[str | None] = Counter()
        notices: list[tuple[int, OutgoingMessage]] = []
        for number, topic, _, _, address, _ in changes.announced:
            if number in refused:
                continue
            if topic not in webhooks:
                webhooks[topic] = yield from webhooks_of(topic, now_ms)
            messages = [notice(topic, address, webhook) for webhook in webhooks[topic]]
            size_bytes = sum(message.size_bytes for message in messages)
            if messages and not self._covers(address, caused[address] + size_bytes):
                refused[number] = QueueFullError("your address")
                continue
            caused[address] += size_bytes
            notices += [(number, message) for message in messages]
        return notices

    def _covers(self, address: str | None, size_bytes: int) -> bool:
        return self._allowance is None or self._allowance.covers(address, size_bytes)

    def _refusals(self, changes: Changes) -> dict[int, QueueFullError]:
        """The refusals of a full database, which takes no message and deletes settled ones all the same."""
        if not self.database.is_full:
            return {}
        return {
            message.number: QueueFullError("the server") for message in (*changes.kept, *changes.announced)
        }

    @transaction
    def sweep(self, now_ms: int, limit: int) -> Transaction[int]:
        """Delete at most `limit` messages that have expired; returns how many."""
        return scalar(int, (yield Statement(sql.SWEEP, (now_ms, limit))))


def _keep_each(
    messages: Sequence[Message], refused: dict[int, QueueFullError], now_ms: int, limits: QueueLimits
) -> Transaction[None]:
    counted: _Counted = {}
    for message in messages:
        if message.number in refused:
            continue
        full = yield from _keep(message, now_ms, limits, counted)
        if full is not None:
            refused[message.number] = full


def _keep(
    message: Message, now_ms: int, limits: QueueLimits, counted: _Counted
) -> Transaction[QueueFullError | None]:
    number, topic, text, sender, address, expires_at_ms = message
    size_bytes = len(text)
    shares = [((yield from _waiting(sql.SHARE_OF_TOPIC, topic, now_ms, counted)), limits.topic, "the topic")]
    if address is not None:
        waiting = yield from _waiting(sql.SHARE_OF_ADDRESS, address, now_ms, counted)
        shares.append((waiting, limits.address, "your address"))
    for waiting, share, whose in shares:
        if waiting.messages >= share.messages or waiting.size_bytes + size_bytes > share.size_bytes:
            return QueueFullError(whose)
    for waiting, _, _ in shares:
        waiting.messages += 1
        waiting.size_bytes += size_bytes
    yield Statement(sql.INSERT, (number, topic, text, size_bytes, sender, address, expires_at_ms))
    return None


def _waiting(statement: str, whose: str, now_ms: int, counted: _Counted) -> Transaction[_Waiting]:
    """Read once in a transaction and then kept up to date: there may be ten thousand rows."""
    waiting = counted.get((statement, whose))
    if waiting is None:
        ((messages, size_bytes),) = yield Statement(statement, (whose, now_ms))
        waiting = counted[statement, whose] = _Waiting(messages, size_bytes)
    return waiting


def _message(row: Row) -> Message:
    return Message(*row)
