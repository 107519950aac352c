"""The outbox in SQL. A message is stored in the transaction that causes it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TypeAlias

import orjson

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.values import dataclass
from bridge_server.outbox import models
from bridge_server.storage import database as sql

INSERT = """
INSERT INTO outbox
    (message_id, destination, url, body, purpose, subject, signing_secret, device_id, client, queue,
     created_at_ms, next_attempt_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_ALL = """
INSERT INTO outbox (message_id, destination, url, body, purpose, subject, device_id, client, queue,
     created_at_ms, next_attempt_at_ms)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       CAST(json_extract(value, '$[3]') AS BLOB), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
       json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]'), ?1, ?1
FROM json_each(?2)
"""

# The client is read from the first row of each queue; all else is in the index.
PENDING_QUEUES = """
SELECT pending.destination, pending.queue, outbox.client,
    pending.tried_due, pending.tried, pending.next_due_ms
FROM (SELECT destination, queue, MIN(id) AS id,
             MIN(CASE WHEN next_attempt_at_ms <= ?1 THEN attempts END) AS tried_due,
             MIN(attempts) AS tried,
             MIN(CASE WHEN next_attempt_at_ms > ?1 THEN next_attempt_at_ms END) AS next_due_ms
      FROM outbox WHERE next_attempt_at_ms IS NOT NULL AND (destination, queue) > (?2, ?3)
      GROUP BY destination, queue ORDER BY destination, queue LIMIT ?4) AS pending
JOIN outbox ON outbox.id = pending.id
"""
_NEXT_DUE = """
SELECT MIN(next_attempt_at_ms) FROM outbox WHERE destination = ? AND queue = ? AND next_attempt_at_ms > ?
"""
_NEXT = """
SELECT id, message_id, url, body, purpose, signing_secret, destination, device_id, client, subject, attempts,
       created_at_ms, next_attempt_at_ms
FROM outbox WHERE destination = ? AND queue = ? AND next_attempt_at_ms <= ?
ORDER BY attempts, next_attempt_at_ms, id LIMIT ?
"""
# A row's id is used again once the row is deleted: the message id keeps a late record off the new row.
_DELETE = "DELETE FROM outbox WHERE id = ? AND message_id = ?"
_POSTPONE = """
UPDATE outbox SET attempts = ?, next_attempt_at_ms = ?, last_error = ?
WHERE id = ? AND message_id = ? AND next_attempt_at_ms IS NOT NULL
"""
_BURY = """
UPDATE outbox SET attempts = ?, next_attempt_at_ms = NULL, died_at_ms = ?, last_error = ?
WHERE id = ? AND message_id = ? AND next_attempt_at_ms IS NOT NULL
"""
# The message whose receiver is gone stays, to become a dead letter.
_WITHDRAW = """
DELETE FROM outbox WHERE device_id = ? AND message_id <> ? AND next_attempt_at_ms IS NOT NULL
"""
_DEVICE_REACHED = "UPDATE devices SET delivered_at_ms = ?, last_error = NULL WHERE device_id = ?"
_DEVICE_FAILED = "UPDATE devices SET failed_at_ms = ?, last_error = ? WHERE device_id = ?"
_HOST_ANSWERED = """
INSERT INTO outbox_hosts (host, answered_at_ms) VALUES (?, ?)
ON CONFLICT (host) DO UPDATE SET answered_at_ms = excluded.answered_at_ms
"""
_HOST_SILENT = "DELETE FROM outbox_hosts WHERE host = ?"
_ANSWERING_HOSTS = "SELECT host, answered_at_ms FROM outbox_hosts ORDER BY answered_at_ms DESC LIMIT ?"
_COUNT_PENDING = "SELECT COUNT(*) FROM outbox WHERE next_attempt_at_ms IS NOT NULL"
_COUNT_DEAD = "SELECT COUNT(*) FROM outbox WHERE died_at_ms IS NOT NULL"
SWEEP_DEAD = """
DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE died_at_ms < ? ORDER BY died_at_ms LIMIT ?)
RETURNING id
"""
SWEEP_OLD_HOSTS = """
DELETE FROM outbox_hosts WHERE host IN
    (SELECT host FROM outbox_hosts WHERE answered_at_ms < ? ORDER BY answered_at_ms LIMIT ?)
"""
_SWEEP_MANY_HOSTS = """
DELETE FROM outbox_hosts WHERE host IN
    (SELECT host FROM outbox_hosts ORDER BY answered_at_ms DESC LIMIT ? OFFSET ?)
"""

_SWEEP_SLICE = 500
_LONG_COUNT_SECONDS = 0.1
_COUNTS_SHARE = 20
"""Counts that take long take no more than this part of the time."""


@dataclass(slots=True)
class Stock:
    """The numbers of pending messages and of dead letters, which are right from `OutboxStore.count` on."""

    due: int = 0
    dead: int = 0

    def subscribe_to(self, events: Events) -> None:
        """Follow the changes from now on."""
        events.subscribe(models.OutboxGrew, self._add)
        events.subscribe(models.OutboxChanged, self._change)
        events.subscribe(models.OutboxCounted, self._set)

    def _add(self, event: models.OutboxGrew) -> None:
        self.due += event.messages

    def _change(self, event: models.OutboxChanged) -> None:
        self.due += event.pending
        self.dead += event.dead

    def _set(self, event: models.OutboxCounted) -> None:
        self.due, self.dead = event.pending, event.dead


def enqueue(message: models.OutgoingMessage, now_ms: int) -> sql.Transaction[None]:
    """Queue the message: part of the transaction that causes it."""
    destination, queue = message.queue
    content = (message.message_id, destination, message.url, message.body, message.purpose, message.subject)
    sending = (message.signing_secret, message.device_id, message.client, queue)
    yield sql.Statement(INSERT, (*content, *sending, now_ms, now_ms))
    yield models.grown_by(message)


def enqueue_all(messages: Sequence[models.OutgoingMessage], now_ms: int) -> sql.Transaction[None]:
    """Queue many messages, which have no signing secret of their own, in one statement."""
    if not messages:
        return
    rows = orjson.dumps([_values(message) for message in messages]).decode()
    yield sql.Statement(INSERT_ALL, (now_ms, rows))
    counts = Counter(message.queue for message in messages)
    last = {message.queue: message for message in messages}
    for queue, message in last.items():
        yield models.grown_by(message, counts[queue])


def withdraw(device_id: str, but_message_id: str = "") -> sql.Transaction[None]:
    """Delete the device's messages except one: part of the transaction that removes the device."""
    deleted = sql.scalar(int, (yield sql.Statement(_WITHDRAW, (device_id, but_message_id))))
    if deleted:
        yield models.OutboxChanged(pending=-deleted)


class OutboxStore:
    """Pending messages and dead letters. Times are milliseconds since the Unix epoch. A commit that changes
    their numbers publishes `OutboxGrew` or `OutboxChanged`. Any method may raise `UnavailableError`.
    """

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    async def pending_queues(self, now_ms: int, after: models.Queue, limit: int) -> list[models.PendingQueue]:
        """The queues that follow this one in their order and hold a message, due or not yet."""
        rows = await self.database.read(PENDING_QUEUES, (now_ms, *after, limit))
        return [_pending_queue(row) for row in rows]

    async def next_messages(self, queue: models.Queue, now_ms: int, limit: int) -> list[models.DueMessage]:
        """The messages that are due: fewest attempts first, and then in the order of time."""
        return [_due_message(row) for row in await self.database.read(_NEXT, (*queue, now_ms, limit))]

    async def next_due_ms(self, queue: models.Queue, now_ms: int) -> int | None:
        """The time at which the next message becomes due; None when there is none."""
        due_at_ms: int | None
        ((due_at_ms,),) = await self.database.read(_NEXT_DUE, (*queue, now_ms))
        return due_at_ms

    @sql.transaction
    def delete_delivered(
        self, messages: Sequence[models.DueMessage], now_ms: int, answering: Sequence[str]
    ) -> sql.Transaction[None]:
        """Delete messages that receivers took; record the devices and `answering` hosts that were reached."""
        pending = 0
        for due in messages:
            deleted = sql.scalar(int, (yield sql.Statement(_DELETE, (due.row_id, due.message.message_id))))
            pending -= deleted
            if due.message.device_id is not None:
                yield sql.Statement(_DEVICE_REACHED, (now_ms, due.message.device_id))
        for host in answering:
            yield sql.Statement(_HOST_ANSWERED, (host, now_ms))
        if pending:
            yield models.OutboxChanged(pending=pending)

    @sql.transaction
    def postpone(
        self, message: models.DueMessage, next_attempt_at_ms: int, error: str, now_ms: int, silent: str | None
    ) -> sql.Transaction[None]:
        """Record a failed attempt and when the next is due, and that the `silent` host did not answer."""
        row = (message.row_id, message.message.message_id)
        yield sql.Statement(_POSTPONE, (message.attempts + 1, next_attempt_at_ms, error, *row))
        yield from _note_failure(message, now_ms, error, silent)
        yield models.OutboxChanged()

    @sql.transaction
    def bury(
        self, message: models.DueMessage, died_at_ms: int, error: str, silent: str | None
    ) -> sql.Transaction[None]:
        """Record the last attempt and keep the message as a dead letter, unless it was withdrawn."""
        row = (message.row_id, message.message.message_id)
        ((buried,),) = yield sql.Statement(_BURY, (message.attempts + 1, died_at_ms, error, *row))
        yield from _note_failure(message, died_at_ms, error, silent)
        if buried:
            yield models.OutboxChanged(pending=-1, dead=1)

    @sql.transaction
    def count(self) -> sql.Transaction[None]:
        """Publish `OutboxCounted`."""
        # A transaction that writes, so that no change is counted twice or left out: its event follows it.
        pending = sql.scalar(int, (yield sql.Statement(_COUNT_PENDING)))
        dead = sql.scalar(int, (yield sql.Statement(_COUNT_DEAD)))
        yield models.OutboxCounted(pending, dead)

    async def stock(self) -> Stock:
        """The numbers of pending messages and of dead letters, of all processes together."""
        read = self.database.read
        pending, dead = await asyncio.gather(read(_COUNT_PENDING), read(_COUNT_DEAD))
        return Stock(sql.scalar(int, pending), sql.scalar(int, dead))

    async def answering_hosts(self, limit: int) -> list[tuple[str, int]]:
        """The hosts that answered last and when, latest first."""
        rows = await self.database.read(_ANSWERING_HOSTS, (limit,))
        return [(host, answered_at_ms) for host, answered_at_ms in rows]

    @sql.transaction(turns=sql.sweeping("outbox"))
    def sweep(self, died_before_ms: int, answered_before_ms: int, host_limit: int) -> sql.Transaction[int]:
        """Delete a slice of the dead letters and hosts that are older or too many; returns how many."""
        dead = len((yield sql.Statement(SWEEP_DEAD, (died_before_ms, _SWEEP_SLICE))))
        if dead:
            yield models.OutboxChanged(dead=-dead)
        old = sql.scalar(int, (yield sql.Statement(SWEEP_OLD_HOSTS, (answered_before_ms, _SWEEP_SLICE))))
        many = sql.scalar(int, (yield sql.Statement(_SWEEP_MANY_HOSTS, (_SWEEP_SLICE, host_limit))))
        return dead + old + many


def _values(message: models.OutgoingMessage) -> list[str | None]:
    destination, queue = message.queue
    content = [message.message_id, destination, message.url, message.body.decode(), message.purpose]
    return [*content, message.subject, message.device_id, message.client, queue]


def _note_failure(
    message: models.DueMessage, now_ms: int, error: str, silent: str | None
) -> sql.Transaction[None]:
    if message.message.device_id is not None:
        yield sql.Statement(_DEVICE_FAILED, (now_ms, error, message.message.device_id))
    if silent is not None:
        yield sql.Statement(_HOST_SILENT, (silent,))


def _pending_queue(row: sql.Row) -> models.PendingQueue:
    destination, queue, client, tried_due, tried, next_due_ms = row
    is_due = tried_due is not None
    has_failed = (tried_due if is_due else tried) > 0
    claimant = models.Claimant(models.Queue(destination, queue), client, has_failed)
    return models.PendingQueue(claimant, is_due, next_due_ms)


def _due_message(row: sql.Row) -> models.DueMessage:
    row_id, message_id, url, body, purpose, *sending, attempts, created_at_ms, due_at_ms = row
    message = models.OutgoingMessage(message_id, url, body, models.Purpose(purpose), *sending)
    return models.DueMessage(row_id, message, attempts, created_at_ms, due_at_ms)


StockOf: TypeAlias = Callable[[], Awaitable[Stock]]
"""Gives the numbers of this moment."""


class CountedStock:
    """The numbers in a database that several processes change, counted on demand; a slow count is kept."""

    def __init__(self, count: StockOf) -> None:
        self._count = count
        self._counting = asyncio.Lock()
        self._known = Stock()
        self._rests_until = 0.0

    async def now(self) -> Stock:
        """The numbers; while the database is away, those that were counted last."""
        async with self._counting:
            began = perf_counter()
            if began < self._rests_until:
                return self._known
            try:
                self._known = await self._count()
            except UnavailableError:
                return self._known
            took = perf_counter() - began
            self._rests_until = began + _COUNTS_SHARE * took if took > _LONG_COUNT_SECONDS else 0.0
            return self._known
