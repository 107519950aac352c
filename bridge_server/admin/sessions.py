"""Sessions of the bridge, shown with timelines and ended by the operator; topics of generation 2.x."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, Literal, NotRequired, TypeAlias
from urllib.parse import quote

from bridge_server.admin import other_processes
from bridge_server.admin.other_processes import PROCESS, Fields, Pages, ProcessAnswer, WantedProcess
from bridge_server.admin.rows import ANY_ID, AdminRows, read_after, read_place, shortened, wanted_page
from bridge_server.admin.traffic_records import CallLives, KeptRequestAnswer, NamedThingAnswer, named
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.v2_list import ListedTopic, TopicList, TopicPlace
from bridge_server.relay.models import SessionId, SessionNotFoundError
from bridge_server.relay.service import Relay
from bridge_server.relay.store import SeenCall, SeenSession
from bridge_server.web.recorder import Activities, Activity
from bridge_server.web.routes import Route
from bridge_server.web.shapes import Count, Moment, NextPage, TypedDict, one_of, page_parameters, text
from bridge_server.web.traffic import TrafficLog

_GENERATIONS = {"v0.7-": "0.7", "": "plain"}

_MOST_CALLS = 100
MOST_REQUESTS = 200


class LivingSessionAnswer(TypedDict):
    """A session. Fields that only requests show are null until a request has shown them."""

    handle: Annotated[str, text("s4Jd0cRkW1x2y3z4A5b6Cw")] | None
    id: Annotated[str, text("0192f7c8…")]
    generation: Annotated[str, one_of("plain", "0.7")] | None
    dapp: Annotated[str, text("Example Shop")] | None
    approved: bool
    push: Annotated[str, text("fcm")] | None
    calls_waiting: Count
    created_at: Moment | None
    expires_at: Moment
    dapp_seen_at: Moment | None
    wallet_seen_at: Moment | None


class LivingSessionsAnswer(TypedDict):
    """A page of sessions, newest first."""

    sessions: list[LivingSessionAnswer]
    next: NextPage | None
    processes: NotRequired[list[ProcessAnswer]]


class SessionHappeningAnswer(TypedDict):
    """Something that happened in a session, or will."""

    at: Moment
    event: Annotated[str, one_of("opened", "asked", "answered", "expires")]
    call: NamedThingAnswer | None


class SessionStoryAnswer(LivingSessionAnswer):
    """A session, its timeline, and the requests about it that are still kept."""

    timeline: list[SessionHappeningAnswer]
    requests: list[KeptRequestAnswer]
    processes: NotRequired[list[ProcessAnswer]]


class SessionAdmin:
    """Shows sessions, and ends them. It reads the records of which `CallLives` makes lifetimes of calls."""

    def __init__(self, lives: CallLives, relay: Relay, activities: Activities) -> None:
        self._sessions, self._requests = lives.sessions, lives.requests
        self.processes, self._status_ms = lives.processes, lives.status_ms
        self._relay, self._activities = relay, activities

    async def page(self, after: str, limit: int, process: WantedProcess = None) -> LivingSessionsAnswer:
        """Sessions that live, newest first. Ids are shortened, because a whole id is a capability. Raises
        InvalidInputError.
        """
        before = read_after(after)

        async def own() -> LivingSessionsAnswer:
            page = await self._sessions.page(before, limit)
            following = None if page.next_before is None else str(page.next_before)
            return {"sessions": [self._fields(each) for each in page.sessions], "next": following}

        question = (_SESSIONS, {"after": after, "limit": str(limit)})
        return await self.processes.of_all(process, question, own, merged_page)

    async def story(self, handle: str, process: WantedProcess = None) -> SessionStoryAnswer:
        """A session with its timeline, and the requests about it that are still kept. Raises
        SessionNotFoundError.
        """

        async def own() -> Fields:
            session = await self._sessions.session(self._id_of(handle))
            calls = await self._sessions.calls(session, _MOST_CALLS)
            ids = {str(session.session_id), *(str(call.call_id) for call in calls)}
            return {
                **self._fields(session),
                "timeline": self._timeline(session, calls),
                "requests": list(islice(self._requests.about(ids), MOST_REQUESTS)),
            }

        path = f"{_SESSIONS}/{quote(handle, safe='')}"
        return await self.processes.of_all(process, (path, {}), own, merged_story)

    async def count(self) -> int:
        """The number of living sessions; it may be a minute old."""
        return await self._sessions.count()

    async def end(self, handle: str) -> None:
        """The session ends for both sides, with its calls. Raises SessionNotFoundError."""
        await self._relay.end_session(self._id_of(handle))

    def _id_of(self, handle: str) -> SessionId:
        session_id = self._requests.handles.id_of(handle)
        if session_id is None:
            raise SessionNotFoundError
        return SessionId(session_id)

    def _fields(self, session: SeenSession) -> LivingSessionAnswer:
        """A session. Each side was seen when it sent a request, as far as this process knows."""
        seen = self._activities.of(session.session_id) or Activity("")
        is_known = seen.dapp_at_us is not None or seen.wallet_at_us is not None
        return {
            "handle": self._requests.handles.of(session.session_id),
            "id": shortened(session.session_id),
            "generation": _GENERATIONS.get(seen.prefix) if is_known else None,
            "dapp": seen.dapp_name,
            "approved": session.is_approved,
            "push": session.push_type,
            "calls_waiting": session.calls_waiting,
            "created_at": rfc3339_or_none(session.created_at_ms),
            "expires_at": rfc3339(session.expires_at_ms),
            "dapp_seen_at": self._seen_at(seen.dapp_at_us),
            "wallet_seen_at": self._seen_at(seen.wallet_at_us),
        }

    def _seen_at(self, elapsed_us: int | None) -> str | None:
        if elapsed_us is None:
            return None
        return rfc3339(self._requests.now_ms() - self._activities.ago_ms(elapsed_us))

    def _timeline(self, session: SeenSession, calls: Sequence[SeenCall]) -> list[SessionHappeningAnswer]:
        """The events of the session, past and expected, in the order of time."""
        found: list[tuple[int, str, str | None]] = []
        if session.created_at_ms is not None:
            found.append((session.created_at_ms, "opened", None))
        for call in calls:
            if call.created_at_ms is not None:
                found.append((call.created_at_ms, "asked", call.call_id))
            if call.status_expires_at_ms is not None:
                found.append((call.status_expires_at_ms - self._status_ms, "answered", call.call_id))
        found.append((session.expires_at_ms, "expires", None))
        return [
            {"at": rfc3339(at_ms), "event": event, "call": named(call_id, self._requests.handles)}
            for at_ms, event, call_id in sorted(found, key=lambda each: each[0])
        ]


def merged_page(pages: Pages) -> Fields:
    """A page of sessions with what all processes have seen of them."""
    own, *others = pages.values()
    seen: dict[str, list[Fields]] = {}
    for session in (session for page in others for session in page["sessions"]):
        seen.setdefault(session["handle"], []).append(session)
    sessions = [_as_seen_by_all([each, *seen.get(each["handle"], ())]) for each in own["sessions"]]
    return {**own, "sessions": sessions}


def merged_story(stories: Pages) -> Fields:
    """A session with what all processes have seen of it, and the requests that any of them keeps."""
    requests = other_processes.newest_first(stories, "requests")[:MOST_REQUESTS]
    return {**_as_seen_by_all([*stories.values()]), "requests": requests}


def _as_seen_by_all(found: Sequence[Fields]) -> Fields:
    """The session as the first of these processes shows it, with what requests to the others have shown."""
    return {
        **found[0],
        **{
            name: next((each[name] for each in found if each[name] is not None), None)
            for name in ("generation", "dapp")
        },
        **{
            name: max(each[name] or "" for each in found) or None
            for name in ("dapp_seen_at", "wallet_seen_at")
        },
    }


_SESSIONS = "/admin/sessions"
_SESSION = f"{_SESSIONS}/{{handle:{ANY_ID}}}"


# Topics of generation 2.x: listed with their sockets and the messages that wait on them.

TopicKind: TypeAlias = Literal["pairing", "session"]

_TOPICS = "/admin/topics"
_TOPIC_PLACE = re.compile(r"([0-9]{1,16})-([0-9]{1,9})", re.ASCII)
_PUBLISHED = re.compile(r"tag ([0-9]{1,6}), [0-9]+ B to topic ([0-9a-fA-F]{8}…)")
_PAIRING_TAGS = frozenset((*range(1000, 1006), 1100, 1101, *range(1116, 1122)))
_SESSION_TAGS = range(1102, 1116)


class ListedTopicAnswer(TypedDict):
    """A topic. Its kind is known while its last publication is in the record of requests."""

    topic: Annotated[str, text("9f2c6a01…")]
    kind: Annotated[str, one_of("pairing", "session")] | None
    subscribers: Count
    sockets: Count
    messages_waiting: Count
    bytes_waiting: Count
    expires_at: Moment


class ListedTopicsAnswer(TypedDict):
    """A page of topics; topics whose clients have connected last come first."""

    topics: list[ListedTopicAnswer]
    next: NextPage | None
    processes: NotRequired[list[ProcessAnswer]]


class TopicAdmin:
    """Lists topics of generation 2.x."""

    def __init__(
        self,
        topics: TopicList,
        sockets_on: Callable[[Topic], int],
        traffic: TrafficLog | None,
        processes: other_processes.Cluster,
    ) -> None:
        self._topics, self._sockets_on = topics, sockets_on
        self._traffic, self.processes = traffic, processes

    async def page(self, after: str, limit: int, process: WantedProcess = None) -> ListedTopicsAnswer:
        """Topics that clients of generation 2.x are subscribed to, connected or not. Topics are shortened.
        Raises InvalidInputError.
        """
        shown = read_place(after, _TOPIC_PLACE)
        place = TopicPlace() if shown is None else TopicPlace(int(shown[1]), int(shown[2]))

        async def own() -> ListedTopicsAnswer:
            found, following = await self._topics.page(place, limit)
            recorded = () if self._traffic is None else self._traffic.answered_after(0)
            kinds = kinds_of(each.exchange.summary for each in recorded)
            return {
                "topics": [self._fields(each, kinds) for each in found],
                "next": None if following is None else f"{following.latest_ms}-{following.skipped}",
            }

        question = (_TOPICS, {"after": after, "limit": str(limit)})
        return await self.processes.of_all(process, question, own, merged_topics)

    def _fields(self, listed: ListedTopic, kinds: dict[str, TopicKind]) -> ListedTopicAnswer:
        shown = shortened(listed.topic)
        return {
            "topic": shown,
            "kind": kinds.get(shown),
            "subscribers": listed.subscribers,
            "sockets": self._sockets_on(listed.topic),
            "messages_waiting": listed.messages,
            "bytes_waiting": listed.message_bytes,
            "expires_at": rfc3339(listed.expires_at_ms),
        }


def kinds_of(summaries: Iterable[str]) -> dict[str, TopicKind]:
    """The kinds of shortened topics, by the tags of Sign 2.0 in these summaries, newest first."""
    kinds: dict[str, TopicKind] = {}
    for found in filter(None, map(_PUBLISHED.search, summaries)):
        tag, topic = int(found[1]), found[2]
        if tag in _SESSION_TAGS or tag in _PAIRING_TAGS:
            kinds.setdefault(topic, "session" if tag in _SESSION_TAGS else "pairing")
    return kinds


def merged_topics(pages: Pages) -> Fields:
    """A page of topics with the sockets of all processes."""
    everywhere: dict[tuple[str, str], list[Fields]] = {}
    for page in pages.values():
        for each in page["topics"]:
            everywhere.setdefault((each["topic"], each["expires_at"]), []).append(each)
    own, topics = next(iter(pages.values())), []
    for each in own["topics"]:
        seen = everywhere[each["topic"], each["expires_at"]]
        kind = next((one["kind"] for one in seen if one["kind"]), None)
        topics.append({**each, "kind": kind, "sockets": sum(one["sockets"] for one in seen)})
    return {**own, "topics": topics}


def session_routes(sessions: SessionAdmin, topics: TopicAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """The list, one session, and its end; and the list of topics."""
    rows, process = rows.under("Observation"), sessions.processes.wanted
    return (
        rows.read(_SESSIONS, "sessions",
                  lambda request: sessions.page(*wanted_page(request), process(request)),
                  "List sessions", "A page.", of=sessions.page, parameters=(PROCESS, *page_parameters())),
        rows.read(_SESSION, "shown-session",
                  lambda request: sessions.story(request.match_info["handle"], process(request)),
                  "Show a session", "The session.", of=sessions.story,
                  parameters=(PROCESS,), problems=(SessionNotFoundError, InvalidInputError)),
        rows.write("DELETE", _SESSION, "end-shown-session",
                   lambda request: sessions.end(request.match_info["handle"]),
                   "End a session", "It has ended.", of=sessions.end, problems=(SessionNotFoundError,)),
        rows.read(_TOPICS, "topics", lambda request: topics.page(*wanted_page(request), process(request)),
                  "List topics of 2.x", "A page.", of=topics.page, parameters=(PROCESS, *page_parameters())),
    )  # fmt: skip
