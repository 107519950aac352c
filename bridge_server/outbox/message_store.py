"""Stored messages for an operator, in SQL: listed, sent again at once, dropped."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bridge_server.outbox import listing_sql as sql
from bridge_server.outbox.errors import MessageNotFoundError
from bridge_server.outbox.events import OutboxChanged, OutboxGrew
from bridge_server.outbox.models import OutgoingMessage, Purpose, Queue
from bridge_server.outbox.stored import (
    MessageFilter,
    MessagePage,
    MessagePlace,
    MessageState,
    StoredMessage,
    WholeMessage,
)
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Transaction,
    Value,
    json_array,
    reading,
    scalar,
    transaction,
)
from bridge_server.storage.turns import alone, always

ROWS_PER_PAGE = 10_000
"""The most rows that a page looks at."""

_SLICE = 500
_BEYOND_ALL = 2**63 - 1
_NEWEST = MessagePlace(_BEYOND_ALL, _BEYOND_ALL)

# Messages that an operator changes are counted by their state before the change.
_one_by_one = always(alone("stored-messages"))


@dataclass(frozen=True, slots=True)
class DeadSlice:
    """A part of the dead letters that was changed: how many, and the place to go on after."""

    changed: int
    rest: MessagePlace | None


class MessageStore:
    """Messages of every state. Times are milliseconds since the Unix epoch.

    `pushes` are the purposes of messages for devices.
    """

    def __init__(
        self,
        database: Database,
        rows_per_page: int = ROWS_PER_PAGE,
        pushes: Collection[Purpose] = (),
    ) -> None:
        self.database = database
        self._pushes = json_array(pushes)
        self._rows_per_page = rows_per_page

    @reading
    def page(
        self, wanted: MessageFilter, after: MessagePlace | None, limit: int, now_ms: int
    ) -> Transaction[MessagePage]:
        """The messages that follow the place: newest first, dead letters by the time of death."""
        is_dead = wanted.state is MessageState.DEAD
        place, window = after or _NEWEST, self._rows_per_page
        begin: tuple[Value, ...] = (place.died_at_ms, place.row_id) if is_dead else (place.row_id,)
        conditions = (
            now_ms,
            wanted.state,
            wanted.purpose,
            wanted.destination,
            self._pushes,
            wanted.kind,
        )
        statement = sql.DEAD_PAGE if is_dead else sql.PAGE
        rows = yield Statement(statement, (*conditions, *begin, window, limit + 1))
        messages = [_stored(row) for row in rows]
        if len(messages) > limit:
            last = messages[limit - 1]
            return MessagePage(messages[:limit], MessagePlace(last.row_id, last.died_at_ms or 0))
        following = yield Statement(sql.DEAD_PAGE_REST if is_dead else sql.PAGE_REST, (*begin, window - 1))
        return MessagePage(messages, MessagePlace(*following[0]) if following else None)

    @reading
    def whole(self, row_id: int, message_id: str) -> Transaction[WholeMessage]:
        """One message. Raises MessageNotFoundError."""
        stored = yield from _found(row_id, message_id)
        rows = yield Statement(sql.CONTENT, (row_id, message_id))
        if not rows:
            raise MessageNotFoundError
        url, body, signing_secret = rows[0]
        message = OutgoingMessage(
            message_id,
            url,
            body,
            stored.purpose,
            signing_secret,
            stored.queue.destination,
            stored.device_id,
            stored.client,
            stored.subject,
        )
        return WholeMessage(stored, message)

    @reading
    def get(self, row_id: int, message_id: str) -> Transaction[StoredMessage]:
        """One message without its content. Raises MessageNotFoundError."""
        return (yield from _found(row_id, message_id))

    @transaction(turns=_one_by_one)
    def retry(self, row_id: int, message_id: str, now_ms: int) -> Transaction[StoredMessage]:
        """Have a message sent now, unless it is due already. Raises MessageNotFoundError."""
        stored = yield from _found(row_id, message_id)
        if stored.state(now_ms) is MessageState.DUE:
            return stored
        yield Statement(sql.RETRY, (now_ms, row_id, message_id))
        revived = int(stored.died_at_ms is not None)
        yield OutboxGrew(*stored.queue, stored.client, revived, were_tried=True)
        yield OutboxChanged(dead=-revived)
        return (yield from _found(row_id, message_id))

    @transaction(turns=_one_by_one)
    def drop(self, row_id: int, message_id: str) -> Transaction[None]:
        """Delete a message. Raises MessageNotFoundError."""
        stored = yield from _found(row_id, message_id)
        yield Statement(sql.DROP, (row_id, message_id))
        yield OutboxChanged(dead=-1) if stored.died_at_ms is not None else OutboxChanged(owed=-1)

    @transaction(turns=_one_by_one)
    def retry_dead(
        self, destination: str | None, after: MessagePlace | None, until_ms: int, now_ms: int
    ) -> Transaction[DeadSlice]:
        """Have a slice of the dead letters until then sent now: a destination's, or any (None)."""
        rows, rest = yield from _dead_slice(after, until_ms)
        chosen = _of_destination(rows, destination)
        if not chosen:
            return DeadSlice(0, rest)
        changed = scalar(
            int, (yield Statement(sql.RETRY_DEAD, (now_ms, json_array(row[0] for row in chosen))))
        )
        yield OutboxChanged(owed=changed, dead=-changed)
        for queue, client in {(row[2], row[3]): row[4] for row in chosen}.items():
            yield OutboxGrew(*queue, client, 0, were_tried=True)
        return DeadSlice(changed, rest)

    @transaction(turns=_one_by_one)
    def drop_dead(
        self, destination: str | None, after: MessagePlace | None, until_ms: int
    ) -> Transaction[DeadSlice]:
        """Delete a slice of the dead letters until then: a destination's, or any (None)."""
        rows, rest = yield from _dead_slice(after, until_ms)
        chosen = json_array(row[0] for row in _of_destination(rows, destination))
        changed = scalar(int, (yield Statement(sql.DROP_DEAD, (chosen,))))
        if changed:
            yield OutboxChanged(dead=-changed)
        return DeadSlice(changed, rest)


def _found(row_id: int, message_id: str) -> Transaction[StoredMessage]:
    rows = yield Statement(sql.GET, (row_id, message_id))
    if not rows:
        raise MessageNotFoundError
    return _stored(rows[0])


def _of_destination(rows: Sequence[Row], destination: str | None) -> Sequence[Row]:
    return [row for row in rows if destination is None or row[2] == destination]


def _dead_slice(
    after: MessagePlace | None, until_ms: int
) -> Transaction[tuple[Sequence[Row], MessagePlace | None]]:
    place = after or MessagePlace(-1, -1)
    rows = yield Statement(sql.DEAD_SLICE, (place.died_at_ms, place.row_id, until_ms, _SLICE))
    return rows, MessagePlace(rows[-1][0], rows[-1][1]) if len(rows) == _SLICE else None


def _stored(row: Row) -> StoredMessage:
    row_id, message_id, destination, queue, purpose, *rest = row
    return StoredMessage(row_id, message_id, Queue(destination, queue), Purpose(purpose), *rest)
