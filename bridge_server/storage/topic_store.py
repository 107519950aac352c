"""Messages that wait on topics, in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import orjson

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.pubsub.errors import QueueFullError
from bridge_server.pubsub.models import Changes, Message, QueueLimits, Topic
from bridge_server.storage import topic_sql as sql
from bridge_server.storage.database import Database, Row, Statement, Transaction
from bridge_server.storage.outbox_store import enqueue
from bridge_server.storage.relay_sql import WEBHOOKS_OF_TOPIC


@dataclass(slots=True)
class _Waiting:
    """How much waits on a topic, or from an address."""

    messages: int
    size_bytes: int


_Counted: TypeAlias = dict[tuple[str, str], _Waiting]
"""By the statement that reads it, and whose it is."""


class SqlTopicStore:
    """Implements the room's store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self) -> int:
        ((number,),) = await self._database.read(sql.NEWEST)
        return cast(int, number)

    async def waiting(self, topic: Topic, now_ms: int) -> Sequence[Message]:
        return [_message(row) for row in await self._database.read(sql.WAITING, (topic, now_ms))]

    async def apply(
        self,
        changes: Changes,
        now_ms: int,
        limits: QueueLimits,
        notice: Callable[[Topic, str | None, str], OutgoingMessage],
    ) -> Mapping[int, QueueFullError]:
        def work() -> Transaction[Mapping[int, QueueFullError]]:
            refused = self._refusals(changes)
            counted: _Counted = {}
            for message in changes.kept:
                if message.number in refused:
                    continue
                full = yield from _keep(message, now_ms, limits, counted)
                if full is not None:
                    refused[message.number] = full
            if changes.settled:
                yield Statement(sql.DELETE, (orjson.dumps(changes.settled).decode(),))
            taken = Counter(
                (message.topic, message.address)
                for message in changes.announced
                if message.number not in refused
            )
            for (topic, address), times in taken.items():
                yield from _announce(topic, address, times, now_ms, notice)
            return refused

        return await self._database.transaction(work)

    def _refusals(self, changes: Changes) -> dict[int, QueueFullError]:
        """A full database takes nothing; what has arrived is deleted from it all the same."""
        if not self._database.is_full:
            return {}
        return {
            message.number: QueueFullError("the server") for message in (*changes.kept, *changes.announced)
        }

    async def sweep(self, now_ms: int, limit: int) -> int:
        def work() -> Transaction[int]:
            ((deleted,),) = yield Statement(sql.SWEEP, (now_ms, limit))
            return cast(int, deleted)

        return await self._database.transaction(work)


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
    """Read once in a transaction, and counted along from there: there may be ten thousand rows."""
    waiting = counted.get((statement, whose))
    if waiting is None:
        ((messages, size_bytes),) = yield Statement(statement, (whose, now_ms))
        waiting = counted[statement, whose] = _Waiting(cast(int, messages), cast(int, size_bytes))
    return waiting


def _announce(
    topic: Topic,
    address: str | None,
    times: int,
    now_ms: int,
    notice: Callable[[Topic, str | None, str], OutgoingMessage],
) -> Transaction[None]:
    for (webhook,) in (yield Statement(WEBHOOKS_OF_TOPIC, (topic, now_ms))):
        for _ in range(times):
            yield from enqueue(notice(topic, address, cast(str, webhook)), now_ms)


def _message(row: Row) -> Message:
    return Message(*cast(tuple[int, Topic, bytes, int, str | None, int], row))
