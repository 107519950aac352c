"""The outbox in SQL. A message enters it in the transaction of whoever causes it."""

from collections.abc import Sequence
from typing import cast

import orjson

from bridge_server.outbox.models import Backlog, DueMessage, OutgoingMessage
from bridge_server.storage.database import Announcement, Database, Row, Statement, Transaction

_INSERT = """
INSERT INTO outbox
    (message_id, destination, url, body, signing_secret, device_id, created_at_ms, next_attempt_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_ALL = """
INSERT INTO outbox (message_id, destination, url, body, device_id, created_at_ms, next_attempt_at_ms)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       CAST(json_extract(value, '$[3]') AS BLOB), json_extract(value, '$[4]'), ?1, ?1
FROM json_each(?2)
"""
_BACKLOG = """
SELECT destination, MIN(next_attempt_at_ms), COUNT(*) FROM outbox
WHERE next_attempt_at_ms IS NOT NULL GROUP BY destination
"""
_NEXT = """
SELECT id, message_id, url, body, signing_secret, destination, device_id, attempts, created_at_ms,
       next_attempt_at_ms
FROM outbox WHERE destination = ? AND next_attempt_at_ms IS NOT NULL ORDER BY next_attempt_at_ms, id LIMIT ?
"""
# An id may be given again once its row is deleted: the message id keeps a late record off a stranger's row.
_DELETE = "DELETE FROM outbox WHERE id = ? AND message_id = ?"
_POSTPONE = """
UPDATE outbox SET attempts = ?, next_attempt_at_ms = ?, last_error = ?
WHERE id = ? AND message_id = ?
"""
_BURY = """
UPDATE outbox SET attempts = ?, next_attempt_at_ms = NULL, died_at_ms = ?, last_error = ?
WHERE id = ? AND message_id = ?
"""
# The gone message itself stays, to become a dead letter.
_WITHDRAW = """
DELETE FROM outbox WHERE device_id = ? AND message_id <> ? AND next_attempt_at_ms IS NOT NULL
"""
_DEVICE_REACHED = "UPDATE devices SET delivered_at_ms = ?, last_error = NULL WHERE device_id = ?"
_DEVICE_FAILED = "UPDATE devices SET failed_at_ms = ?, last_error = ? WHERE device_id = ?"
_COUNT_DEAD = "SELECT COUNT(*) FROM outbox WHERE died_at_ms IS NOT NULL"
_SWEEP_DEAD = """
DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE died_at_ms < ? ORDER BY died_at_ms LIMIT ?)
RETURNING id
"""

_SWEEP_SLICE = 500


def enqueue(message: OutgoingMessage, now_ms: int) -> Transaction[None]:
    """Owe the message from now on: to be yielded from within the transaction that causes it."""
    destination = message.destination
    sealed = (message.message_id, destination, message.url, message.body, message.signing_secret)
    yield Statement(_INSERT, (*sealed, message.device_id, now_ms, now_ms))
    yield Announcement(("outbox", destination))


def enqueue_all(messages: Sequence[OutgoingMessage], now_ms: int) -> Transaction[None]:
    """The same for many at once, in one statement; nobody is told twice of one destination."""
    if not messages:
        return
    rows = [
        [message.message_id, message.destination, message.url, message.body.decode(), message.device_id]
        for message in messages
    ]
    yield Statement(_INSERT_ALL, (now_ms, orjson.dumps(rows).decode()))
    destinations = dict.fromkeys(message.destination for message in messages)
    for destination in destinations:
        yield Announcement(("outbox", destination))
    if len(messages) > len(destinations):
        yield Announcement(("outbox-more", str(len(messages) - len(destinations))))


def withdraw(device_id: str, but_message_id: str = "") -> Transaction[None]:
    """Owe the device nothing more, but for one message: part of the transaction that removes the device."""
    ((deleted,),) = yield Statement(_WITHDRAW, (device_id, but_message_id))
    if deleted:
        yield Announcement(("outbox-more", str(-cast(int, deleted))))


class SqlOutboxStore:
    """Implements the outbox's store on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def backlog(self) -> list[Backlog]:
        rows = await self._database.read(_BACKLOG)
        return [
            Backlog(cast(str, destination), cast(int, earliest_due_ms), cast(int, messages))
            for destination, earliest_due_ms, messages in rows
        ]

    async def next_messages(self, destination: str, limit: int) -> list[DueMessage]:
        return [_due_message(row) for row in await self._database.read(_NEXT, (destination, limit))]

    async def delete_delivered(self, messages: Sequence[DueMessage], now_ms: int) -> int:
        def work() -> Transaction[int]:
            owed = 0
            for due in messages:
                ((deleted,),) = yield Statement(_DELETE, (due.row_id, due.message.message_id))
                owed += cast(int, deleted)
                if due.message.device_id is not None:
                    yield Statement(_DEVICE_REACHED, (now_ms, due.message.device_id))
            return owed

        return await self._database.transaction(work)

    async def postpone(self, message: DueMessage, next_attempt_at_ms: int, error: str, now_ms: int) -> None:
        row = (message.row_id, message.message.message_id)
        await self._write(
            message,
            Statement(_POSTPONE, (message.attempts + 1, next_attempt_at_ms, error, *row)),
            Statement(_DEVICE_FAILED, (now_ms, error, message.message.device_id)),
        )

    async def bury(self, message: DueMessage, died_at_ms: int, error: str) -> int:
        row = (message.row_id, message.message.message_id)
        return await self._write(
            message,
            Statement(_BURY, (message.attempts + 1, died_at_ms, error, *row)),
            Statement(_DEVICE_FAILED, (died_at_ms, error, message.message.device_id)),
        )

    async def count_dead_letters(self) -> int:
        rows = await self._database.read(_COUNT_DEAD)
        return cast(int, rows[0][0])

    async def sweep(self, died_before_ms: int) -> int:
        def work() -> Transaction[int]:
            return len((yield Statement(_SWEEP_DEAD, (died_before_ms, _SWEEP_SLICE))))

        return await self._database.transaction(work)

    async def _write(self, message: DueMessage, statement: Statement, on_device: Statement) -> int:
        def work() -> Transaction[int]:
            ((changed,),) = yield statement
            if message.message.device_id is not None:
                yield on_device
            return cast(int, changed)

        return await self._database.transaction(work)


def _due_message(row: Row) -> DueMessage:
    row_id, message_id, url, body, secret, lane, device_id, attempts, created_at_ms, due_at_ms = row
    return DueMessage(
        row_id=cast(int, row_id),
        message=OutgoingMessage(
            cast(str, message_id),
            cast(str, url),
            cast(bytes, body),
            cast(str | None, secret),
            cast(str, lane),
            cast(str | None, device_id),
        ),
        attempts=cast(int, attempts),
        created_at_ms=cast(int, created_at_ms),
        due_at_ms=cast(int, due_at_ms),
    )
