"""Stored messages for an operator, in SQL: listed, sent again at once, dropped; and the messages of a queue.
A list reads a bounded number of rows, whatever it is filtered by.
"""

# ruff: noqa: S608  only constants of this module are put in

from collections.abc import Collection, Sequence
from typing import NamedTuple

from bridge_server.outbox import models
from bridge_server.outbox.models import MessagePage, MessagePlace, MessageState, StoredMessage
from bridge_server.storage import database as sql

_LISTED = """
id, message_id, destination, queue, purpose, subject, device_id, client, attempts, created_at_ms,
next_attempt_at_ms, died_at_ms, last_error
"""
_STATE = """
CASE WHEN died_at_ms IS NOT NULL THEN 'dead' WHEN next_attempt_at_ms <= ?1 THEN 'due' ELSE 'waiting' END
"""
_KIND = "CASE WHEN purpose IN (SELECT value FROM json_each(?5)) THEN 'push' ELSE 'webhook' END"
_WANTED = """
WHERE state = coalesce(?2, state) AND purpose = coalesce(?3, purpose)
    AND destination = coalesce(?4, destination) AND kind = coalesce(?6, kind)
"""

PAGE = f"""
SELECT {_LISTED} FROM (
    SELECT {_LISTED}, {_STATE} AS state, {_KIND} AS kind FROM outbox
    WHERE id < ?7 ORDER BY id DESC LIMIT ?8
) AS seen {_WANTED} ORDER BY id DESC LIMIT ?9
"""
PAGE_REST = "SELECT id, 0 FROM outbox WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"
DEAD_PAGE = f"""
SELECT {_LISTED} FROM (
    SELECT {_LISTED}, {_STATE} AS state, {_KIND} AS kind FROM outbox
    WHERE died_at_ms IS NOT NULL AND (died_at_ms, id) < (?7, ?8) ORDER BY died_at_ms DESC, id DESC LIMIT ?9
) AS seen {_WANTED} ORDER BY died_at_ms DESC, id DESC LIMIT ?10
"""
DEAD_PAGE_REST = """
SELECT id, died_at_ms FROM outbox WHERE died_at_ms IS NOT NULL AND (died_at_ms, id) < (?, ?)
ORDER BY died_at_ms DESC, id DESC LIMIT 1 OFFSET ?
"""

GET = f"SELECT {_LISTED} FROM outbox WHERE id = ? AND message_id = ?"
CONTENT = "SELECT url, body, signing_secret FROM outbox WHERE id = ? AND message_id = ?"

# A dead letter begins anew, as after its first attempt: it waits for its place among the retries.
RETRY = """
UPDATE outbox SET
    attempts = CASE WHEN died_at_ms IS NULL THEN attempts ELSE 1 END,
    next_attempt_at_ms = ?, died_at_ms = NULL
WHERE id = ? AND message_id = ?
"""
DROP = "DELETE FROM outbox WHERE id = ? AND message_id = ?"

DEAD_SLICE = """
SELECT id, died_at_ms, destination, queue, client FROM outbox
WHERE died_at_ms IS NOT NULL AND (died_at_ms, id) > (?, ?) AND died_at_ms <= ?
ORDER BY died_at_ms, id LIMIT ?
"""
RETRY_DEAD = """
UPDATE outbox SET attempts = 1, next_attempt_at_ms = ?, died_at_ms = NULL
WHERE id IN (SELECT value FROM json_each(?)) AND died_at_ms IS NOT NULL
"""
DROP_DEAD = "DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?)) AND died_at_ms IS NOT NULL"

ROWS_PER_PAGE = 10_000
"""The most rows that are read for a page."""

_DEAD_AT_ONCE = 500
_BEYOND_ALL = 2**63 - 1
_NEWEST = MessagePlace(_BEYOND_ALL, _BEYOND_ALL)

# Messages that an operator changes are counted by their state before the change.
_one_by_one = sql.always(sql.alone("stored-messages"))

OF_QUEUE = """
SELECT body, attempts, next_attempt_at_ms, last_error FROM outbox
WHERE destination = ? AND queue = ? AND next_attempt_at_ms IS NOT NULL
ORDER BY attempts, next_attempt_at_ms LIMIT ?
"""
# It walks through the index of pending messages, when /metrics is asked for while some are pending; so many
# entries of it, and no more: of a longer queue the oldest among them stands for all.
OLDEST_DUE = """
SELECT MIN(next_attempt_at_ms)
FROM (SELECT next_attempt_at_ms FROM outbox WHERE next_attempt_at_ms IS NOT NULL
      ORDER BY destination, queue, attempts, next_attempt_at_ms LIMIT ?) AS slice
"""

_MOST_SHOWN = 100
_MOST_READ = 100_000


class DeadSlice(NamedTuple):
    """A part of the dead letters that was changed: how many, and the place to go on after."""

    changed: int
    rest: MessagePlace | None


class MessageStore:
    """Messages of every state, at epoch milliseconds. `pushes` are the purposes of messages for devices."""

    def __init__(
        self,
        database: sql.Database,
        rows_per_page: int = ROWS_PER_PAGE,
        pushes: Collection[models.Purpose] = (),
    ) -> None:
        self.database = database
        self._pushes = sql.json_array(pushes)
        self._rows_per_page = rows_per_page

    @sql.reading
    def page(
        self, wanted: models.MessageFilter, after: MessagePlace | None, limit: int, now_ms: int
    ) -> sql.Transaction[MessagePage]:
        """The messages that follow the place: newest first, dead letters by the time of death."""
        is_dead = wanted.state is MessageState.DEAD
        place, window = after or _NEWEST, self._rows_per_page
        begin: tuple[sql.Value, ...] = (place.died_at_ms, place.row_id) if is_dead else (place.row_id,)
        conditions = (now_ms, wanted.state, wanted.purpose, wanted.destination, self._pushes, wanted.kind)
        statement = DEAD_PAGE if is_dead else PAGE
        rows = yield sql.Statement(statement, (*conditions, *begin, window, limit + 1))
        messages = [_stored(row) for row in rows]
        if len(messages) > limit:
            last = messages[limit - 1]
            return MessagePage(messages[:limit], MessagePlace(last.row_id, last.died_at_ms or 0))
        following = yield sql.Statement(DEAD_PAGE_REST if is_dead else PAGE_REST, (*begin, window - 1))
        return MessagePage(messages, MessagePlace(*following[0]) if following else None)

    @sql.reading
    def whole(self, row_id: int, message_id: str) -> sql.Transaction[models.WholeMessage]:
        """One message. Raises MessageNotFoundError."""
        stored = yield from _found(row_id, message_id)
        rows = yield sql.Statement(CONTENT, (row_id, message_id))
        if not rows:
            raise models.MessageNotFoundError
        url, body, signing_secret = rows[0]
        message = models.OutgoingMessage(
            message_id, url, body, stored.purpose, signing_secret, stored.queue.destination,
            stored.device_id, stored.client, stored.subject,
        )  # fmt: skip
        return models.WholeMessage(stored, message)

    @sql.reading
    def get(self, row_id: int, message_id: str) -> sql.Transaction[StoredMessage]:
        """One message without its content. Raises MessageNotFoundError."""
        return (yield from _found(row_id, message_id))

    @sql.transaction(turns=_one_by_one)
    def retry(self, row_id: int, message_id: str, now_ms: int) -> sql.Transaction[StoredMessage]:
        """Have a message sent now, unless it is due already. Raises MessageNotFoundError."""
        stored = yield from _found(row_id, message_id)
        if stored.state(now_ms) is MessageState.DUE:
            return stored
        yield sql.Statement(RETRY, (now_ms, row_id, message_id))
        revived = int(stored.died_at_ms is not None)
        yield models.OutboxGrew(*stored.queue, stored.client, revived, were_tried=True)
        yield models.OutboxChanged(dead=-revived)
        return (yield from _found(row_id, message_id))

    @sql.transaction(turns=_one_by_one)
    def drop(self, row_id: int, message_id: str) -> sql.Transaction[None]:
        """Delete a message. Raises MessageNotFoundError."""
        stored = yield from _found(row_id, message_id)
        yield sql.Statement(DROP, (row_id, message_id))
        yield (
            models.OutboxChanged(dead=-1)
            if stored.died_at_ms is not None
            else models.OutboxChanged(pending=-1)
        )

    @sql.transaction(turns=_one_by_one)
    def retry_dead(
        self, destination: str | None, after: MessagePlace | None, until_ms: int, now_ms: int
    ) -> sql.Transaction[DeadSlice]:
        """Have a slice of the dead letters until then sent now: a destination's, or any (None)."""
        rows, rest = yield from _dead_slice(after, until_ms)
        chosen = _of_destination(rows, destination)
        if not chosen:
            return DeadSlice(0, rest)
        ids = sql.json_array(row[0] for row in chosen)
        changed = sql.scalar(int, (yield sql.Statement(RETRY_DEAD, (now_ms, ids))))
        yield models.OutboxChanged(pending=changed, dead=-changed)
        for queue, client in {(row[2], row[3]): row[4] for row in chosen}.items():
            yield models.OutboxGrew(*queue, client, 0, were_tried=True)
        return DeadSlice(changed, rest)

    @sql.transaction(turns=_one_by_one)
    def drop_dead(
        self, destination: str | None, after: MessagePlace | None, until_ms: int
    ) -> sql.Transaction[DeadSlice]:
        """Delete a slice of the dead letters until then: a destination's, or any (None)."""
        rows, rest = yield from _dead_slice(after, until_ms)
        chosen = sql.json_array(row[0] for row in _of_destination(rows, destination))
        changed = sql.scalar(int, (yield sql.Statement(DROP_DEAD, (chosen,))))
        if changed:
            yield models.OutboxChanged(dead=-changed)
        return DeadSlice(changed, rest)


def _found(row_id: int, message_id: str) -> sql.Transaction[StoredMessage]:
    rows = yield sql.Statement(GET, (row_id, message_id))
    if not rows:
        raise models.MessageNotFoundError
    return _stored(rows[0])


def _of_destination(rows: Sequence[sql.Row], destination: str | None) -> Sequence[sql.Row]:
    return [row for row in rows if destination is None or row[2] == destination]


def _dead_slice(
    after: MessagePlace | None, until_ms: int
) -> sql.Transaction[tuple[Sequence[sql.Row], MessagePlace | None]]:
    place = after or MessagePlace(-1, -1)
    rows = yield sql.Statement(DEAD_SLICE, (place.died_at_ms, place.row_id, until_ms, _DEAD_AT_ONCE))
    return rows, MessagePlace(rows[-1][0], rows[-1][1]) if len(rows) == _DEAD_AT_ONCE else None


def _stored(row: sql.Row) -> StoredMessage:
    row_id, message_id, destination, queue, purpose, *rest = row
    return StoredMessage(row_id, message_id, models.Queue(destination, queue), models.Purpose(purpose), *rest)


class PendingMessage(NamedTuple):
    """A pending message, the number of its attempts, and the reason of the last failure."""

    body: bytes
    attempts: int
    next_attempt_at_ms: int
    last_error: str | None


async def oldest_due_ms(database: sql.Database) -> int | None:
    """The time since which a message has been due the longest, or the next is due; None without any."""
    ((due_at_ms,),) = await database.read(OLDEST_DUE, (_MOST_READ,))
    return None if due_at_ms is None else int(due_at_ms)


async def pending_of(database: sql.Database, queue: models.Queue) -> Sequence[PendingMessage]:
    """The first hundred messages of this queue; the messages that were tried least come first."""
    rows = await database.read(OF_QUEUE, (*queue, _MOST_SHOWN))
    return [PendingMessage(*row) for row in rows]
