"""Sessions and calls as an operator sees them: their rows, without payloads."""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.kernel.clock import Clock
from bridge_server.relay import session_list_sql as sql
from bridge_server.relay.errors import CallNotFoundError, SessionNotFoundError
from bridge_server.relay.models import CallId, SessionId
from bridge_server.storage.database import Database, Row

_NEWEST = 2**63 - 1
_COUNTED_AT_ONCE = 5_000
_LOOKED_AT_ONCE = 5_000
_COUNT_KEPT_US = 60_000_000
_TIME_DIGITS = 12


@dataclass(frozen=True, slots=True)
class SeenSession:
    """A session. `number` is its row, which is no capability. Times are milliseconds since the Unix epoch."""

    number: int
    session_id: SessionId
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


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call, and the time until which its status can be read, if it has one."""

    call_id: CallId
    expires_at_ms: int
    status_expires_at_ms: int | None

    @property
    def created_at_ms(self) -> int | None:
        """When it was asked for, which its id says."""
        return made_at_ms(self.call_id)


@dataclass(frozen=True, slots=True)
class StoredCallLife:
    """A call, its session, and the webhook that is notified of the session's calls."""

    call: SeenCall
    session_id: SessionId
    push_webhook: str | None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Living sessions, and the number behind which the next page begins; None at the end."""

    sessions: Sequence[SeenSession]
    next_before: int | None


class SessionList:
    """Reads sessions and calls for an operator."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._counted: tuple[int, int] | None = None

    async def page(self, before: int | None, limit: int) -> SessionPage:
        """The living sessions with lower numbers, all for None; newest first.

        At most 5,000 rows are looked at: of sessions that have expired and are not deleted yet there can be
        any number, and a page among them has fewer sessions than its limit, or none.
        """
        before = _NEWEST if before is None else before
        parameters = (self._clock.now_ms(), before, limit + 1, _LOOKED_AT_ONCE)
        found = [_session(row) for row in await self._database.read(sql.PAGE, parameters)]
        if len(found) > limit:
            return SessionPage(found[:limit], found[limit - 1].number)
        end = await self._database.read(sql.SLICE_END, (before, _LOOKED_AT_ONCE - 1))
        return SessionPage(found, int(end[0][0]) if end else None)

    async def session(self, session_id: str) -> SeenSession:
        """One living session. Raises SessionNotFoundError."""
        rows = await self._database.read(sql.ONE, (self._clock.now_ms(), session_id))
        if not rows:
            raise SessionNotFoundError
        return _session(rows[0])

    async def calls(self, session: SeenSession, limit: int) -> Sequence[SeenCall]:
        """The session's last calls that wait or were answered lately, newest first."""
        rows = await self._database.read(sql.CALLS, (session.number, limit))
        return [_call(row) for row in rows]

    async def call(self, call_id: str) -> StoredCallLife:
        """One living call. Raises CallNotFoundError."""
        rows = await self._database.read(sql.CALL, (self._clock.now_ms(), call_id))
        if not rows:
            raise CallNotFoundError
        *call, session_id, push_webhook = rows[0]
        return StoredCallLife(_call(tuple(call)), SessionId(session_id), push_webhook)

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
            ((rows, last, alive),) = await self._database.read(
                sql.COUNT_SLICE, (last, now_ms, _COUNTED_AT_ONCE)
            )
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


def _session(row: Row) -> SeenSession:
    number, session_id, expires_at_ms, is_approved, push_type, push_webhook, waiting = row
    return SeenSession(
        number, SessionId(session_id), expires_at_ms, bool(is_approved), push_type, push_webhook, waiting
    )


def _call(row: Row) -> SeenCall:
    call_id, expires_at_ms, status_expires_at_ms = row
    return SeenCall(CallId(call_id), expires_at_ms, status_expires_at_ms)
