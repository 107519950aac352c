"""Sessions: their rows, the times at which they were seen, and their calls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from bridge_server.admin.handles import Handles
from bridge_server.admin.traffic.subjects import subject_of
from bridge_server.kernel.clock import Clock
from bridge_server.relay.errors import SessionNotFoundError
from bridge_server.relay.models import SessionId
from bridge_server.relay.service import Relay
from bridge_server.relay.session_list import SeenCall, SeenSession, SessionList
from bridge_server.relay.sightings import Sighting, Sightings
from bridge_server.web.exchanges import Recorded
from bridge_server.web.traffic import TrafficLog

_MOST_CALLS = 100
MOST_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session, and how it was seen since the start. Times are milliseconds since the Unix epoch."""

    session: SeenSession
    dialect: str | None
    """The prefix of the routes by which it was seen last; None when it was not seen."""
    dapp_name: str | None
    dapp_seen_at_ms: int | None
    wallet_seen_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened in a session, or will: `opened`, `asked`, `answered`, `expires`."""

    at_ms: int
    name: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionStory:
    """A session with its timeline, and the requests about it that are still kept, newest first."""

    view: SessionView
    timeline: Sequence[Happening]
    requests: Sequence[Recorded]


class SessionViews:
    """Looks sessions up, and ends them. A status can be read for `status_ms`."""

    def __init__(
        self,
        sessions: SessionList,
        relay: Relay,
        sightings: Sightings,
        traffic: TrafficLog | None,
        handles: Handles,
        clock: Clock,
        status_ms: int,
    ) -> None:
        self._sessions = sessions
        self._relay = relay
        self._sightings = sightings
        self.traffic = traffic
        self.handles = handles
        self._clock = clock
        self._status_ms = status_ms

    async def page(self, before: int | None, limit: int) -> tuple[Sequence[SessionView], int | None]:
        """The living sessions with lower numbers, newest first; and the `before` of the next page."""
        page = await self._sessions.page(before, limit)
        return [self._view(each) for each in page.sessions], page.next_before

    async def count(self) -> int:
        """The number of living sessions; it may be a minute old."""
        return await self._sessions.count()

    async def story(self, handle: str) -> SessionStory:
        """One session. Raises SessionNotFoundError."""
        session = await self._sessions.session(self._id_of(handle))
        calls = await self._sessions.calls(session, _MOST_CALLS)
        timeline = sorted(self._happenings(session, calls), key=lambda each: each.at_ms)
        return SessionStory(self._view(session), timeline, self._requests(session, calls))

    async def end(self, handle: str) -> None:
        """End a session and its calls. Raises SessionNotFoundError."""
        await self._relay.end_session(self._id_of(handle))

    def _id_of(self, handle: str) -> SessionId:
        session_id = self.handles.id_of(handle)
        if session_id is None:
            raise SessionNotFoundError
        return SessionId(session_id)

    def _view(self, session: SeenSession) -> SessionView:
        seen = self._sightings.of(session.session_id) or Sighting("")
        is_known = seen.dapp_at_us is not None or seen.wallet_at_us is not None
        return SessionView(
            session,
            seen.dialect if is_known else None,
            seen.dapp_name,
            self._moment(seen.dapp_at_us),
            self._moment(seen.wallet_at_us),
        )

    def _moment(self, seen_at_us: int | None) -> int | None:
        return None if seen_at_us is None else self._clock.now_ms() - self._sightings.ago_ms(seen_at_us)

    def _happenings(self, session: SeenSession, calls: Sequence[SeenCall]) -> Iterator[Happening]:
        if session.created_at_ms is not None:
            yield Happening(session.created_at_ms, "opened")
        for call in calls:
            if call.created_at_ms is not None:
                yield Happening(call.created_at_ms, "asked", call.call_id)
            if call.status_expires_at_ms is not None:
                yield Happening(call.status_expires_at_ms - self._status_ms, "answered", call.call_id)
        yield Happening(session.expires_at_ms, "expires")

    def _requests(self, session: SeenSession, calls: Sequence[SeenCall]) -> Sequence[Recorded]:
        if self.traffic is None:
            return ()
        ids = {str(session.session_id), *(str(call.call_id) for call in calls)}
        about = (
            each for each in self.traffic.before(None) if not ids.isdisjoint(subject_of(each.exchange).ids)
        )
        return list(islice(about, MOST_REQUESTS))
