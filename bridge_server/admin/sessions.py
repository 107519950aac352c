"""Sessions of the bridge: listed, shown with their timelines, and ended by the operator."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote

from aiohttp import web

from bridge_server.admin.other_processes import (
    Fields,
    Neighbours,
    Question,
    Reply,
    listed_processes,
    of_all,
    wanted_process,
)
from bridge_server.admin.rows import (
    ANY_ID,
    AdminRows,
    Handles,
    fields_answer,
    shortened,
    success_answer,
    wanted_page,
)
from bridge_server.admin.traffic_records import named, request_fields, subject_of
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.kernel.values import dataclass
from bridge_server.relay.models import SessionId, SessionNotFoundError
from bridge_server.relay.service import Relay, Sighting, Sightings
from bridge_server.relay.store import SeenCall, SeenSession, SessionList
from bridge_server.web.routes import Route
from bridge_server.web.traffic import Recorded, TrafficLog

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_GENERATIONS = {"v0.7-": "0.7", "": "plain"}

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


def read_after(text: str) -> int | None:
    """The number of the session before the page; None for the first page. Raises InvalidInputError."""
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError("The query parameter after takes what next was in the page before.")
    return int(text)


def page_fields(page: Sequence[SessionView], next_before: int | None, handles: Handles) -> dict[str, Any]:
    """A page of sessions, and the `after` of the next page if one may follow."""
    return {
        "sessions": [session_fields(each, handles) for each in page],
        "next": None if next_before is None else str(next_before),
    }


def session_fields(view: SessionView, handles: Handles) -> dict[str, Any]:
    """A session. Each side was seen when it sent a request, as far as this process knows."""
    session = view.session
    return {
        "handle": handles.of(session.session_id),
        "id": shortened(session.session_id),
        "generation": None if view.dialect is None else _GENERATIONS.get(view.dialect),
        "dapp": view.dapp_name,
        "approved": session.is_approved,
        "push": session.push_type,
        "calls_waiting": session.calls_waiting,
        "created_at": rfc3339_or_none(session.created_at_ms),
        "expires_at": rfc3339(session.expires_at_ms),
        "dapp_seen_at": rfc3339_or_none(view.dapp_seen_at_ms),
        "wallet_seen_at": rfc3339_or_none(view.wallet_seen_at_ms),
    }


def story_fields(story: SessionStory, traffic: TrafficLog | None, handles: Handles) -> dict[str, Any]:
    """A session, its timeline, and the requests about it that are still kept, newest first."""
    requests = [] if traffic is None else [request_fields(each, traffic, handles) for each in story.requests]
    return {
        **session_fields(story.view, handles),
        "timeline": [happening_fields(each, handles) for each in story.timeline],
        "requests": requests,
    }


def merged_page(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """A page of sessions with what all processes have seen of them."""
    seen: dict[str, list[dict[str, Any]]] = {}
    for reply in replies:
        for session in () if reply.fields is None else reply.fields["sessions"]:
            seen.setdefault(session["handle"], []).append(session)
    sessions = [_as_seen_by_all(each, seen.get(each["handle"], ())) for each in own["sessions"]]
    return {**own, "sessions": sessions, "processes": listed_processes(own_number, replies)}


def merged_story(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """A session with what all processes have seen of it, and the requests that any of them keeps."""
    stories = {each.number: each.fields for each in replies if each.fields is not None}
    requests = [
        {**request, "process": number}
        for number, story in {**stories, own_number: own}.items()
        for request in story["requests"]
    ]
    return {
        **_as_seen_by_all(own, list(stories.values())),
        "requests": sorted(requests, key=lambda each: (each["at"], each["number"]), reverse=True)[
            :MOST_REQUESTS
        ],
        "processes": listed_processes(own_number, replies),
    }


def _as_seen_by_all(own: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The session, with what requests to other processes have shown of it."""
    found = [own, *others]
    firsts = {name: _first(each[name] for each in found) for name in ("generation", "dapp")}
    moments = ("dapp_seen_at", "wallet_seen_at")
    return {**own, **firsts, **{name: max(each[name] or "" for each in found) or None for name in moments}}


def _first(values: Iterable[str | None]) -> str | None:
    return next((each for each in values if each is not None), None)


def happening_fields(happening: Happening, handles: Handles) -> dict[str, Any]:
    """Something that happened in a session, or will."""
    return {
        "at": rfc3339(happening.at_ms),
        "event": happening.name,
        "call": named(happening.call_id, handles),
    }


# Sessions as all processes on a database have seen them: each knows of the requests that came to it.

_SESSIONS = "/admin/sessions"


class SessionsEverywhere:
    """What all processes together know of sessions, or one of them. Without `neighbours` there is but one."""

    def __init__(self, views: SessionViews, neighbours: Neighbours | None) -> None:
        self._views = views
        self.neighbours = neighbours

    async def page(self, after: str, limit: int, process: str | int | None = None) -> Fields:
        """A page of living sessions, newest first. Raises InvalidInputError."""
        before = read_after(after)

        async def own() -> Fields:
            return page_fields(*await self._views.page(before, limit), self._views.handles)

        question = Question(_SESSIONS, {"after": after, "limit": str(limit)})
        return await of_all(self.neighbours, process, question, own, merged_page)

    async def story(self, handle: str, process: str | int | None = None) -> Fields:
        """One session. Raises SessionNotFoundError."""

        async def own() -> Fields:
            story = await self._views.story(handle)
            return story_fields(story, self._views.traffic, self._views.handles)

        question = Question(f"{_SESSIONS}/{quote(handle, safe='')}")
        return await of_all(self.neighbours, process, question, own, merged_story)

    async def count(self) -> int:
        """How many sessions live; the number may be a minute old."""
        return await self._views.count()

    async def end(self, handle: str) -> None:
        """End a session and its calls. Raises SessionNotFoundError."""
        await self._views.end(handle)


class SessionHandlers:
    """One method per endpoint."""

    def __init__(self, sessions: SessionsEverywhere) -> None:
        self._sessions = sessions

    async def sessions(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        return fields_answer(await self._sessions.page(after, limit, self._wanted_process(request)))

    async def session(self, request: web.Request) -> web.Response:
        handle, process = request.match_info["handle"], self._wanted_process(request)
        return fields_answer(await self._sessions.story(handle, process))

    async def end(self, request: web.Request) -> web.Response:
        await self._sessions.end(request.match_info["handle"])
        return success_answer()

    def _wanted_process(self, request: web.Request) -> str | int | None:
        """The process that the request names, where there are several. Raises InvalidInputError."""
        neighbours = self._sessions.neighbours
        return None if neighbours is None else wanted_process(request, neighbours)


_SESSION = f"/admin/sessions/{{handle:{ANY_ID}}}"


def session_routes(handlers: SessionHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The list, one session, and its end."""
    return (
        rows.read("/admin/sessions", "sessions", handlers.sessions),
        rows.read(_SESSION, "shown-session", handlers.session),
        rows.write("DELETE", _SESSION, "end-shown-session", handlers.end),
    )
