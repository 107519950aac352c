"""Sessions, calls, statuses and topic webhooks in SQL: for clients, for the sweeper, for an operator."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Touched
from bridge_server.kernel.token_bucket import whole_seconds
from bridge_server.outbox import topics
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.store import enqueue
from bridge_server.relay import models
from bridge_server.storage import database as sql

INSERT_SESSION = "INSERT INTO sessions (session_id, expires_at_ms) VALUES (?, ?)"

UPDATE_SESSION = """
UPDATE sessions SET payload = ?, expires_at_ms = ?
WHERE session_id = ? AND expires_at_ms > ?
"""

UPDATE_SESSION_AND_PUSH = """
UPDATE sessions SET payload = ?, expires_at_ms = ?, push_type = ?, push_token = ?, push_webhook = ?
WHERE session_id = ? AND expires_at_ms > ?
"""

# An ended session has expired, and its rows are swept as for any expired session.
END_SESSION = """
UPDATE sessions
SET expires_at_ms = 0, payload = NULL, push_type = NULL, push_token = NULL, push_webhook = NULL
WHERE session_id = ? AND expires_at_ms > ?
RETURNING id
"""
LISTED_CALL_IDS = "SELECT call_id FROM calls WHERE session = ? AND listed = 1"
SESSION_PAYLOAD = "SELECT payload, expires_at_ms FROM sessions WHERE session_id = ? AND expires_at_ms > ?"

SESSION_FOR_CALL = """
SELECT id, expires_at_ms,
       (SELECT count(*) FROM calls WHERE session = sessions.id AND listed = 1 AND calls.expires_at_ms > ?2)
       AS listed,
       push_type IS NOT NULL
       OR EXISTS (SELECT 1 FROM topic_webhooks WHERE topic = session_id AND topic_webhooks.expires_at_ms > ?2)
       AS is_heard
FROM sessions WHERE session_id = ?1 AND expires_at_ms > ?2
"""
PUSH_DETAILS = "SELECT push_type, push_token, push_webhook FROM sessions WHERE id = ?"
PENDING = """
SELECT count(*), min(expires_at_ms) FROM calls WHERE session = ? AND listed = 1 AND expires_at_ms > ?
    AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id)
"""
UNLIST_ANSWERED = """
UPDATE calls SET listed = 0 WHERE session = ? AND listed = 1
    AND EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id)
"""
INSERT_CALL = "INSERT INTO calls (call_id, session, expires_at_ms, listed, payload) VALUES (?, ?, ?, 1, ?)"
PROLONG_SESSION = "UPDATE sessions SET expires_at_ms = ? WHERE id = ?"

PENDING_CALLS = """
SELECT sessions.expires_at_ms, calls.call_id, calls.payload, calls.expires_at_ms
FROM sessions
LEFT JOIN calls ON calls.session = sessions.id AND calls.listed = 1 AND calls.expires_at_ms > ?
    AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id)
WHERE sessions.session_id = ? AND sessions.expires_at_ms > ?
ORDER BY calls.id
"""

CALL = """
SELECT calls.call_id, calls.payload, calls.expires_at_ms
FROM calls JOIN sessions ON sessions.id = calls.session
WHERE calls.call_id = ? AND sessions.session_id = ? AND calls.expires_at_ms > ? AND sessions.expires_at_ms > ?
"""

# A status may be replaced while it can be read, which may be after its call has expired.
CALL_FOR_STATUS = """
SELECT calls.id, sessions.session_id
FROM calls JOIN sessions ON sessions.id = calls.session
WHERE calls.call_id = ?1 AND sessions.expires_at_ms > ?2 AND (calls.expires_at_ms > ?2 OR EXISTS
    (SELECT 1 FROM call_statuses WHERE call = calls.id AND call_statuses.expires_at_ms > ?2))
"""
UPSERT_STATUS = """
INSERT INTO call_statuses (call, expires_at_ms, payload) VALUES (?, ?, ?)
ON CONFLICT (call) DO UPDATE SET expires_at_ms = excluded.expires_at_ms, payload = excluded.payload
"""

# A status outlives its call; without one, only a call that lives is known.
STATUS = """
SELECT call_statuses.payload, coalesce(call_statuses.expires_at_ms, calls.expires_at_ms),
       sessions.session_id, sessions.expires_at_ms
FROM calls
JOIN sessions ON sessions.id = calls.session AND sessions.expires_at_ms > ?
LEFT JOIN call_statuses ON call_statuses.call = calls.id AND call_statuses.expires_at_ms > ?
WHERE calls.call_id = ? AND (calls.expires_at_ms > ? OR call_statuses.expires_at_ms > ?)
"""

REMOVE_PUSH_TO = """
UPDATE sessions SET push_type = NULL, push_token = NULL, push_webhook = NULL
WHERE session_id = ? AND push_webhook = ?
"""

# The sweeper reads rows in the order of their numbers and passes over living ones; the deletion checks the
# expiry again.
EXPIRED_CALLS = "SELECT id FROM calls WHERE id > ? AND id <= ? AND expires_at_ms <= ? ORDER BY id LIMIT ?"
NEXT_CALL = "SELECT min(id) FROM calls WHERE id > ?"
SWEEP_CALL = """
DELETE FROM calls WHERE id = ? AND expires_at_ms <= ?
    AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id AND call_statuses.expires_at_ms > ?)
"""
EXPIRED_SESSIONS = (
    "SELECT id FROM sessions WHERE id > ? AND id <= ? AND expires_at_ms <= ? ORDER BY id LIMIT ?"
)
NEXT_SESSION = "SELECT min(id) FROM sessions WHERE id > ?"
# The highest number is given again once its row is gone: no call may be left then that refers to it.
SWEEP_SESSION = """
DELETE FROM sessions WHERE id = ? AND expires_at_ms <= ?
    AND (id < (SELECT max(id) FROM sessions) OR (SELECT max(id) FROM calls) IS NULL)
"""

_MANY_ANSWERED = 32
"""The number of answered calls on the list from which the next call takes them off it."""


class RelayStore:
    """Durable sessions, calls and statuses. Rows that have expired at `now_ms` count as deleted."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    @sql.adding_transaction
    def create_session(self, session_id: models.SessionId, expires_at_ms: int) -> sql.Transaction[None]:
        """Store an empty session."""
        yield sql.Statement(INSERT_SESSION, (session_id, expires_at_ms))

    @sql.adding_transaction
    def update_session(
        self, session_id: models.SessionId, update: models.SessionUpdate, now_ms: int, expires_at_ms: int
    ) -> sql.Transaction[None]:
        """Replace the payload. Raises SessionNotFoundError."""
        ((changed,),) = yield _update_statement(session_id, update, now_ms, expires_at_ms)
        if not changed:
            raise models.SessionNotFoundError
        yield Touched(("session", session_id))

    @sql.transaction(turns=lambda session_id, *_, **__: sql.alone("session", session_id))
    def delete_session(self, session_id: models.SessionId, now_ms: int) -> sql.Transaction[None]:
        """End the session: nothing of it is known any more. Raises SessionNotFoundError."""
        rows = yield sql.Statement(END_SESSION, (session_id, now_ms))
        if not rows:
            raise models.SessionNotFoundError
        yield from topics.remove_all_webhooks(session_id)
        for kind in ("session", "calls", "statuses"):
            yield Touched((kind, session_id))
        # A poll waits only for the status of a pending call, and pending calls are listed.
        for (call_id,) in (yield sql.Statement(LISTED_CALL_IDS, rows[0])):
            yield Touched(("status", call_id))

    async def session(self, session_id: models.SessionId, now_ms: int) -> models.Slot:
        """The session and its payload. Raises SessionNotFoundError."""
        return _slot(await self.database.read(SESSION_PAYLOAD, (session_id, now_ms)))

    def session_at_once(self, session_id: models.SessionId, now_ms: int) -> models.Slot | None:
        """The session, or None if the database must be awaited. Raises SessionNotFoundError."""
        rows = self.database.look_up(SESSION_PAYLOAD, (session_id, now_ms))
        return None if rows is None else _slot(rows)

    @sql.adding_transaction(turns=lambda call, *_, **__: sql.alone("session", call.session_id))
    def add_call(
        self,
        call: models.StoredCall,
        now_ms: int,
        pending_limit: int,
        messages_to: Callable[[models.CallAudience], Sequence[OutgoingMessage]],
    ) -> sql.Transaction[None]:
        """Store a call, prolong its session if need be, queue the messages to its audience: all or nothing.
        Raises SessionNotFoundError, TooManyPendingCallsError.
        """
        rows = yield sql.Statement(SESSION_FOR_CALL, (call.session_id, now_ms))
        if not rows:
            raise models.SessionNotFoundError
        session, lives_until_ms, listed, is_heard = rows[0]
        if listed >= pending_limit or listed >= _MANY_ANSWERED:
            yield from _check_pending(session, listed, pending_limit, now_ms)
        # The messages may be refused, and then nothing has been written yet.
        messages = messages_to((yield from _audience(session, call.session_id, now_ms))) if is_heard else ()
        yield sql.Statement(INSERT_CALL, (call.call_id, session, call.expires_at_ms, call.payload))
        yield Touched(("calls", call.session_id))
        if lives_until_ms < call.prolonged_if_before_ms:
            yield sql.Statement(PROLONG_SESSION, (call.session_expires_at_ms, session))
            yield Touched(("session", call.session_id))
        for message in messages:
            yield from enqueue(message, now_ms)

    async def pending_calls(self, session_id: models.SessionId, now_ms: int) -> models.PendingCalls:
        """The session's calls without a status. Raises SessionNotFoundError."""
        rows = await self.database.read(PENDING_CALLS, (now_ms, session_id, now_ms))
        if not rows:
            raise models.SessionNotFoundError
        return models.PendingCalls(
            calls=tuple(_call(row[1:]) for row in rows if row[1] is not None),
            session_expires_at_ms=rows[0][0],
        )

    async def call(
        self, session_id: models.SessionId, call_id: models.CallId, now_ms: int
    ) -> models.CallRequest:
        """One call, answered or not. Raises CallNotFoundError."""
        rows = await self.database.read(CALL, (call_id, session_id, now_ms, now_ms))
        if not rows:
            raise models.CallNotFoundError
        return _call(rows[0])

    @sql.adding_transaction
    def set_status(
        self, call_id: models.CallId, payload: models.Payload, now_ms: int, expires_at_ms: int
    ) -> sql.Transaction[None]:
        """Store the call's status, or replace it while it can be read. Raises CallNotFoundError."""
        rows = yield sql.Statement(CALL_FOR_STATUS, (call_id, now_ms))
        if not rows:
            raise models.CallNotFoundError
        call, session_id = rows[0]
        yield sql.Statement(UPSERT_STATUS, (call, expires_at_ms, payload))
        yield Touched(("status", call_id))
        yield Touched(("calls", session_id))

    async def status(self, call_id: models.CallId, now_ms: int) -> models.StatusSlot:
        """The call's status, if it has one. Raises CallNotFoundError."""
        return _status(await self.database.read(STATUS, _of_status(call_id, now_ms)))

    def status_at_once(self, call_id: models.CallId, now_ms: int) -> models.StatusSlot | None:
        """The call's status, or None if the database must be awaited. Raises CallNotFoundError."""
        rows = self.database.look_up(STATUS, _of_status(call_id, now_ms))
        return None if rows is None else _status(rows)

    @sql.adding_transaction(turns=topics.of_topic)
    def subscribe(
        self, topic: topics.Topic, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
    ) -> sql.Transaction[None]:
        """Register the webhook for the topic, or renew it. Raises TooManyWebhooksError."""
        yield from topics.subscribe_webhook(topic, webhook, now_ms, expires_at_ms, webhook_limit)

    @sql.transaction
    def forget_webhook(self, session_id: models.SessionId, webhook: str) -> sql.Transaction[None]:
        """Remove a webhook from the session, and from the topic of the same id."""
        yield from topics.remove_webhook(session_id, webhook)
        yield sql.Statement(REMOVE_PUSH_TO, (session_id, webhook))


def _check_pending(session: int, listed: int, limit: int, now_ms: int) -> sql.Transaction[None]:
    """Count the listed pending calls, and unlist answered ones if many. Raises TooManyPendingCallsError."""
    ((pending, first_expiry_ms),) = yield sql.Statement(PENDING, (session, now_ms))
    if pending >= limit:
        retry_after = whole_seconds((first_expiry_ms - now_ms) * 1000)
        raise models.TooManyPendingCallsError(limit, retry_after)
    if listed - pending >= _MANY_ANSWERED:
        yield sql.Statement(UNLIST_ANSWERED, (session,))


def _update_statement(
    session_id: models.SessionId, update: models.SessionUpdate, now_ms: int, expires_at_ms: int
) -> sql.Statement:
    condition = (session_id, now_ms)
    if update.push is models.Keep.KEEP:
        return sql.Statement(UPDATE_SESSION, (update.payload, expires_at_ms, *condition))
    push = update.push
    columns = (None, None, None) if push is None else (push.type, push.token, push.webhook)
    return sql.Statement(UPDATE_SESSION_AND_PUSH, (update.payload, expires_at_ms, *columns, *condition))


def _slot(rows: list[sql.Row]) -> models.Slot:
    if not rows:
        raise models.SessionNotFoundError
    return models.Slot(*rows[0])


def _of_status(call_id: models.CallId, now_ms: int) -> tuple[sql.Value, ...]:
    return now_ms, now_ms, call_id, now_ms, now_ms


def _status(rows: list[sql.Row]) -> models.StatusSlot:
    if not rows:
        raise models.CallNotFoundError
    payload, expires_at_ms, session_id, session_expires_at_ms = rows[0]
    expires_first_ms = min(expires_at_ms, session_expires_at_ms)
    body = None if payload is None else models.Payload(payload)
    return models.StatusSlot(body, expires_first_ms, models.SessionId(session_id))


def _call(row: sql.Row) -> models.CallRequest:
    call_id, payload, expires_at_ms = row
    return models.CallRequest(models.CallId(call_id), models.Payload(payload), expires_at_ms)


def _audience(
    session: int, session_id: models.SessionId, now_ms: int
) -> sql.Transaction[models.CallAudience]:
    ((push_type, push_token, push_webhook),) = yield sql.Statement(PUSH_DETAILS, (session,))
    push = None if push_type is None else models.PushDetails(push_type, push_token, push_webhook)
    return models.CallAudience(push, tuple((yield from topics.webhooks_of(session_id, now_ms))))


class RelaySweepStore:
    """Deletes rows that have expired at `now_ms`, a slice at a time."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    async def sweep_calls(self, now_ms: int, after: int, span: int, limit: int) -> models.SweptSlice:
        """Read the calls of the next `span` numbers; delete at most `limit` that have expired."""
        expired = await self.database.read(EXPIRED_CALLS, (after, after + span, now_ms, limit))
        deleted = await self._delete(expired, SWEEP_CALL, (now_ms, now_ms)) if expired else 0
        return models.SweptSlice(deleted, await self._last(NEXT_CALL, expired, after + span, limit))

    async def sweep_sessions(self, now_ms: int, after: int, span: int, limit: int) -> models.SweptSlice:
        """Read the sessions of the next `span` numbers; delete at most `limit` that have expired."""
        expired = await self.database.read(EXPIRED_SESSIONS, (after, after + span, now_ms, limit))
        deleted = await self._delete(expired, SWEEP_SESSION, (now_ms,)) if expired else 0
        return models.SweptSlice(deleted, await self._last(NEXT_SESSION, expired, after + span, limit))

    @sql.transaction(turns=sql.sweeping("relay"))
    def _delete(self, numbers: list[sql.Row], statement: str, times: tuple[int, ...]) -> sql.Transaction[int]:
        deleted = 0
        for (number,) in numbers:
            deleted += sql.scalar(int, (yield sql.Statement(statement, (number, *times))))
        return deleted

    async def _last(self, next_statement: str, found: list[sql.Row], end: int, limit: int) -> int | None:
        """The last number read, and numbers after it that name no row; None if none follows."""
        if len(found) == limit:
            return int(found[-1][0])
        ((following,),) = await self.database.read(next_statement, (end,))
        return None if following is None else int(following) - 1

    @sql.transaction(turns=sql.sweeping("webhooks"))
    def sweep_webhooks(self, now_ms: int, limit: int) -> sql.Transaction[int]:
        """Delete at most `limit` webhooks that have expired; returns how many."""
        return (yield from topics.sweep_webhooks(now_ms, limit))


# Sessions and calls as an operator sees them: their rows, without payloads.

PAGE = """
SELECT id, session_id, expires_at_ms, approved, push_type, push_webhook,
       (SELECT count(*) FROM calls WHERE session = slice.id AND listed = 1 AND calls.expires_at_ms > ?1
            AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id))
FROM (SELECT id, session_id, expires_at_ms, payload IS NOT NULL AS approved, push_type, push_webhook
      FROM sessions WHERE id < ?2 ORDER BY id DESC LIMIT ?4) AS slice
WHERE expires_at_ms > ?1 ORDER BY id DESC LIMIT ?3
"""
# The last row of a slice, if others may follow.
SLICE_END = "SELECT id FROM sessions WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"
ONE = """
SELECT id, session_id, expires_at_ms, payload IS NOT NULL, push_type, push_webhook,
       (SELECT count(*) FROM calls WHERE session = sessions.id AND listed = 1 AND calls.expires_at_ms > ?1
            AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id))
FROM sessions WHERE session_id = ?2 AND expires_at_ms > ?1
"""

# Calls that were answered long ago are not listed any more, and no index leads to them.
CALLS = """
SELECT calls.call_id, calls.expires_at_ms, call_statuses.expires_at_ms
FROM calls LEFT JOIN call_statuses ON call_statuses.call = calls.id
WHERE calls.session = ? AND calls.listed = 1 ORDER BY calls.id DESC LIMIT ?
"""
LISTED_CALL = """
SELECT calls.call_id, calls.expires_at_ms, call_statuses.expires_at_ms, sessions.session_id,
       sessions.push_webhook
FROM calls JOIN sessions ON sessions.id = calls.session AND sessions.expires_at_ms > ?1
LEFT JOIN call_statuses ON call_statuses.call = calls.id
WHERE calls.call_id = ?2 AND (calls.expires_at_ms > ?1 OR call_statuses.expires_at_ms > ?1)
"""
COUNT_SLICE = """
SELECT count(*), max(id), count(CASE WHEN expires_at_ms > ?2 THEN 1 END)
FROM (SELECT id, expires_at_ms FROM sessions WHERE id > ?1 ORDER BY id LIMIT ?3) AS slice
"""

_NEWEST = 2**63 - 1
_COUNTED_AT_ONCE = 5_000
_READ_AT_ONCE = 5_000
_COUNT_KEPT_US = 60_000_000
_TIME_DIGITS = 12


class SeenSession(NamedTuple):
    """A session. `number` is its row, which is no capability. Times are milliseconds since the Unix epoch."""

    number: int
    session_id: models.SessionId
    expires_at_ms: int
    is_approved: bool
    """Whether the wallet has updated it."""
    push_type: str | None
    push_webhook: str | None
    calls_waiting: int

    @property
    def created_at_ms(self) -> int | None:
        """When it was opened, which its id says."""
        return made_at_ms(self.session_id)


class SeenCall(NamedTuple):
    """A call, and the time until which its status can be read, if it has one."""

    call_id: models.CallId
    expires_at_ms: int
    status_expires_at_ms: int | None

    @property
    def created_at_ms(self) -> int | None:
        """When it was asked for, which its id says."""
        return made_at_ms(self.call_id)


class StoredCallLife(NamedTuple):
    """A call, its session, and the webhook that is notified of the session's calls."""

    call: SeenCall
    session_id: models.SessionId
    push_webhook: str | None


class SessionPage(NamedTuple):
    """Living sessions, and the number behind which the next page begins; None at the end."""

    sessions: Sequence[SeenSession]
    next_before: int | None


class SessionList:
    """Reads sessions and calls for an operator."""

    def __init__(self, database: sql.Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._counted: tuple[int, int] | None = None

    async def page(self, before: int | None, limit: int) -> SessionPage:
        """The living sessions with lower numbers, all for None; newest first. At most 5,000 rows are read: of
        sessions that have expired and are not deleted yet there can be any number, and a page among them has
        fewer sessions than its limit, or none.
        """
        before = _NEWEST if before is None else before
        parameters = (self._clock.now_ms(), before, limit + 1, _READ_AT_ONCE)
        found = [_session(row) for row in await self._database.read(PAGE, parameters)]
        if len(found) > limit:
            return SessionPage(found[:limit], found[limit - 1].number)
        end = await self._database.read(SLICE_END, (before, _READ_AT_ONCE - 1))
        return SessionPage(found, int(end[0][0]) if end else None)

    async def session(self, session_id: str) -> SeenSession:
        """One living session. Raises SessionNotFoundError."""
        rows = await self._database.read(ONE, (self._clock.now_ms(), session_id))
        if not rows:
            raise models.SessionNotFoundError
        return _session(rows[0])

    async def calls(self, session: SeenSession, limit: int) -> Sequence[SeenCall]:
        """The session's last calls that wait or whose status is kept, newest first."""
        rows = await self._database.read(CALLS, (session.number, limit))
        return [_listed_call(row) for row in rows]

    async def call(self, call_id: str) -> StoredCallLife:
        """One living call. Raises CallNotFoundError."""
        rows = await self._database.read(LISTED_CALL, (self._clock.now_ms(), call_id))
        if not rows:
            raise models.CallNotFoundError
        *call, session_id, push_webhook = rows[0]
        return StoredCallLife(_listed_call(tuple(call)), models.SessionId(session_id), push_webhook)

    async def count(self) -> int:
        """The number of living sessions, counted in slices; the count is at most a minute old."""
        now_us = self._clock.elapsed_us()
        if self._counted is None or now_us - self._counted[0] > _COUNT_KEPT_US:
            self._counted = now_us, await self._count()
        return self._counted[1]

    async def _count(self) -> int:
        now_ms, living, last = self._clock.now_ms(), 0, 0
        rows: int
        while True:
            ((rows, last, alive),) = await self._database.read(COUNT_SLICE, (last, now_ms, _COUNTED_AT_ONCE))
            living += int(alive)
            if rows < _COUNTED_AT_ONCE:
                return living


def made_at_ms(any_id: str) -> int | None:
    """The time in an ordered UUID; None for another id."""
    digits = any_id.replace("-", "")
    if len(digits) != 32 or digits[_TIME_DIGITS] != "7":
        return None
    try:
        return int(digits[:_TIME_DIGITS], 16)
    except ValueError:
        return None


def _session(row: sql.Row) -> SeenSession:
    number, session_id, expires_at_ms, is_approved, *rest = row
    return SeenSession(number, models.SessionId(session_id), expires_at_ms, bool(is_approved), *rest)


def _listed_call(row: sql.Row) -> SeenCall:
    call_id, expires_at_ms, status_expires_at_ms = row
    return SeenCall(models.CallId(call_id), expires_at_ms, status_expires_at_ms)
