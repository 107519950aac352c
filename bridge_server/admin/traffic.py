"""The last requests, as they are listed and shown to the operator."""

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

from aiohttp import web

from bridge_server.admin import other_processes
from bridge_server.admin import traffic_records as records
from bridge_server.admin.other_processes import OWN, PROCESS, Fields, Neighbours, WantedProcess, read_position
from bridge_server.admin.rows import ANY_ID, AdminRows, wanted_page
from bridge_server.admin.traffic_records import CallLives, KeptRequestsAnswer, read_filter
from bridge_server.admin.traffic_stream import TRAFFIC, OpenStream, StreamOfAll, TrafficStreams, WantedStream
from bridge_server.kernel.background import cancelled
from bridge_server.kernel.errors import InvalidInputError, NotFoundError
from bridge_server.kernel.values import dataclass
from bridge_server.relay.models import CallNotFoundError
from bridge_server.web.answers import EventStream
from bridge_server.web.routes import EVENTS, DescribedAnswer, Parameter, Route
from bridge_server.web.shapes import page_parameters, text
from bridge_server.web.traffic import MOST_REQUESTS, Recorded

_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", re.ASCII)
_LONGEST_WAIT_SECONDS = 25.0


class NoTrafficError(NotFoundError, code="traffic-off", title="The record of requests is off"):
    """The server keeps no record of requests."""

    detail = "The server keeps no record of requests: set traffic = on, and start it again."


class RequestNotKeptError(NotFoundError, code="request-not-kept", title="The request is not kept"):
    """The number names no request, or none that is still kept."""

    detail = f"No request of this number is among the last {MOST_REQUESTS}."


@dataclass(frozen=True, slots=True)
class Following:
    """The changes that a client waits for: those after `since`, which is not read yet."""

    since: str
    wait_seconds: float


def read_following(query: Mapping[str, str]) -> Following | None:
    """`since` and `wait` (25 s at most); None without `since`. Raises InvalidInputError."""
    since, wait = query.get("since", ""), query.get("wait", "0")
    if not _SECONDS.fullmatch(wait):
        raise InvalidInputError("The query parameter wait takes seconds, such as ?since=12&wait=5.")
    if since:
        return Following(since, min(float(wait), _LONGEST_WAIT_SECONDS))
    if "wait" in query:
        raise InvalidInputError("The query parameter wait goes with since, the last change that is known.")
    return None


class RequestLists:
    """The lists of requests. `spell` makes the fields of an own request."""

    def __init__(self, streams: TrafficStreams, spell: records.Spell, lives: CallLives) -> None:
        self._streams = streams
        self._traffic = streams.traffic
        self._spell = spell
        self._handles, self._processes = lives.handles, lives.processes
        self.keeps_contents = streams.traffic.keeps_contents

    async def page(
        self, words: str, after: str, limit: int, process: WantedProcess = None
    ) -> KeptRequestsAnswer:
        """A page of the requests that pass the filter in `words`, newest first. Raises InvalidInputError."""
        chosen = read_filter(words, self._handles)

        def own(before: int | None) -> KeptRequestsAnswer:
            found = list(islice(filter(chosen.passes, self._traffic.before(before)), limit + 1))
            return {
                "requests": [self._spell(each) for each in found[:limit]],
                "last": self._traffic.newest(),
                "next": str(found[limit - 1].number) if len(found) > limit else None,
            }

        def last(pages: other_processes.Pages) -> Fields:
            positions = {number: int(page["last"]) for number, page in pages.items()}
            return {"last": other_processes.write_positions(positions)}

        question = (TRAFFIC, {"filter": words})
        pages = other_processes.PagesOfAll("requests", question, limit, own, last, read=records.read_number)
        return await self._processes.page_of_all(process, after, pages)

    async def changes(
        self, words: str, following: Following, limit: int, process: WantedProcess = None
    ) -> KeptRequestsAnswer:
        """The changes, oldest first; with a wait, once there is one. Raises InvalidInputError."""
        neighbours, since, wait_seconds = self._processes.neighbours, following.since, following.wait_seconds
        if neighbours is not None and process is None:
            merged: KeptRequestsAnswer = await self._changes_of_all(neighbours, words, following, limit)
            return merged

        async def own() -> KeptRequestsAnswer:
            if neighbours is None:
                known = records.read_number(since)
            else:
                known = read_position(since, neighbours.own_number)
            found = await self._news(read_filter(words, self._handles), known or 0, wait_seconds)
            return self._page_of_changes(found, limit)

        query = {"filter": words, "since": since, "wait": str(wait_seconds), "limit": str(limit)}
        return await self._processes.of_one(process, (TRAFFIC, query), own, wait_seconds)

    async def one(self, number: int, process: WantedProcess = None) -> records.KeptRequestAnswer:
        """One request. Raises RequestNotKeptError, NotFoundError, InvalidInputError, UnavailableError."""

        async def own() -> records.KeptRequestAnswer:
            found = self._traffic.find(number)
            if found is None:
                raise RequestNotKeptError
            return records.request_fields(found, self._traffic, self._handles)

        return await self._processes.of_one(process, (f"{TRAFFIC}/{number}", {}), own)

    async def _news(self, chosen: records.Filter, since: int, wait_seconds: float) -> Sequence[Recorded]:
        """The changes after one that is known, the oldest first; they wait until there is one."""
        traffic = self._traffic
        since = since if since <= traffic.newest() else 0  # the record was cleared

        async def read() -> Sequence[Recorded] | None:
            return [each for each in traffic.changed_after(since) if chosen.passes(each)] or None

        self._streams.rouse()
        return list(reversed(await traffic.news(read, wait_seconds) or ()))

    def _page_of_changes(self, found: Sequence[Recorded], limit: int) -> KeptRequestsAnswer:
        """The first of these changes, and the last change that a client knows with them."""
        last = found[limit - 1].change if len(found) > limit else self._traffic.newest()
        return {"requests": [self._spell(each) for each in found[:limit]], "last": last}

    async def _changes_of_all(
        self, neighbours: Neighbours, words: str, following: Following, limit: int
    ) -> Fields:
        own, chosen = neighbours.own_number, read_filter(words, self._handles)
        positions: Mapping[int, int] = other_processes.read_positions(following.since, own) or {}
        now = asyncio.get_running_loop().time
        ends_at = now() + following.wait_seconds
        while True:
            replies = await neighbours.ask_all(TRAFFIC, partial(_query, words, positions, limit))
            mine = await self._news(chosen, positions.get(own, 0), 0.0)
            changes = self._page_of_changes(mine, limit)
            found = other_processes.merged_news(positions, own, changes, replies, limit)
            left_seconds = ends_at - now()
            if found["requests"] or left_seconds <= 0:
                return found
            positions = other_processes.read_positions(found["last"], own) or {}
            await self._some_news(neighbours, words, positions, left_seconds)

    async def _some_news(
        self, neighbours: Neighbours, words: str, positions: Mapping[int, int], wait_seconds: float
    ) -> None:
        """Return once some process has news, or the time is over."""

        def query(number: int) -> Mapping[str, str]:
            return {**_query(words, positions, 1, number), "wait": f"{wait_seconds:.3f}"}

        async def own() -> bool:
            chosen, known = read_filter(words, self._handles), positions.get(neighbours.own_number, 0)
            return bool(await self._news(chosen, known, wait_seconds))

        async def another(question: Awaitable[other_processes.Reply]) -> bool:
            fields = (await question).fields
            return fields is not None and bool(fields["requests"])

        questions = await neighbours.questions(TRAFFIC, query, wait_seconds)
        pending = {asyncio.create_task(own()), *(asyncio.create_task(another(each)) for each in questions)}
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() for task in done):
                    return
        finally:
            await cancelled(pending)


def _query(words: str, positions: Mapping[int, int], limit: int, number: int) -> Mapping[str, str]:
    """The query with which a process answers its changes."""
    return {"filter": words, "since": str(positions.get(number, 0)), "limit": str(limit)}


class TrafficAdmin:
    """One method per endpoint. Without `streams` no record is kept, and the answers say how to keep one."""

    def __init__(self, streams: TrafficStreams | None, lives: CallLives) -> None:
        self._streams, self._lives = streams, lives
        self._handles, self._processes = lives.handles, lives.processes
        self._lists = None if streams is None else RequestLists(streams, streams.spell, lives)

    async def handle_list(self, request: web.Request) -> KeptRequestsAnswer:
        """The last 2,000 requests that the server answered and sent, and requests that wait now, newest
        first. With `since` what has changed after that change, oldest first; with `wait` too, once there is
        something.
        """
        lists, process = self._require_lists(), self._processes.wanted(request)
        after, limit = wanted_page(request)
        words, following = request.query.get("filter", ""), read_following(request.query)
        if following is not None:
            return await lists.changes(words, following, limit, process)
        return await lists.page(words, after, limit, process)

    async def handle_one(self, request: web.Request) -> records.KeptRequestAnswer:
        """In test mode with its header fields and bodies."""
        lists, process = self._require_lists(), self._processes.wanted(request)
        return await lists.one(int(request.match_info["number"]), process)

    async def handle_stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events `request`, and `skipped` with the number of changes that were left out."""
        return EventStream(await self._opened(request))

    async def handle_call(self, request: web.Request) -> records.CallLifeAnswer:
        """Asked, webhook (with its outcome), fetched, answered, status read, expires."""
        call_id = self._handles.id_of(request.match_info["call"])
        if call_id is None:
            raise CallNotFoundError
        return await self._lives.of(call_id, self._processes.wanted(request))

    async def _opened(self, request: web.Request) -> OpenStream:
        streams, neighbours = self._streams, self._processes.neighbours
        if streams is None:
            raise NoTrafficError
        last_event = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        process, words = self._processes.wanted(request), request.query.get("filter", "")
        chosen = read_filter(words, self._handles)
        if neighbours is None:
            return streams.join(chosen, records.read_number(last_event))
        own = neighbours.own_number
        if process in (OWN, own):
            return streams.join(chosen, read_position(last_event, own), is_inner=process == OWN)
        named = process if isinstance(process, int) else None
        wanted = WantedStream(chosen, words, named, other_processes.read_positions(last_event, named or own))
        if named is not None:
            await neighbours.find(named)
        stream = StreamOfAll(streams, neighbours, wanted, lambda fields: fields)
        await stream.begin()
        streams.admit(stream)
        return stream

    def _require_lists(self) -> RequestLists:
        if self._lists is None:
            raise NoTrafficError
        return self._lists


_EVENT = 'id: 12\nevent: request\ndata: {"number": 7, "method": "GET", "path": "/info"}\n\n'
_FILTER = Parameter(
    "filter",
    "Words that must all apply: `status:4xx`, `who:wallet`, `is:waits`, `session:X`, a part of a path; a "
    "minus before a word excludes.",
    example="-is:waits",
)
_SINCE = Parameter(
    "since",
    "The last change that is known: `last` of an earlier answer, or the id of an event. Of several processes "
    "it names one change each.",
)
_POSITIVE = {"type": "number", "minimum": 0}
_WAIT = Parameter("wait", "With `since`: up to so many seconds, 25 at most.", _POSITIVE)
_NUMBER = Parameter("number", "The number of a request.", place="path", example="1")
_LAST_EVENT = Parameter("Last-Event-ID", "The id of the last event that was received.", place="header")
_STREAM = DescribedAnswer(
    200, "The stream, which does not end by itself.", Annotated[str, text(_EVENT)], EVENTS
)


def traffic_routes(traffic: TrafficAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """The list, one request, the stream, and the lifetime of a call."""
    read = rows.under("Observation").read
    return (
        read(TRAFFIC, "traffic", traffic.handle_list, "List requests", "The requests.", waits=True,
             parameters=(_FILTER, _SINCE, _WAIT, PROCESS, *page_parameters()),
             problems=(NoTrafficError,), needs_database=False),
        read(f"{TRAFFIC}/stream", "traffic-stream", traffic.handle_stream,
             "Receive requests as they come", "The stream.", answers=(_STREAM,),
             parameters=(_FILTER, _SINCE, PROCESS, _LAST_EVENT),
             problems=(NoTrafficError, records.TooManyFollowersError, InvalidInputError),
             extensions={"x-event-stream": True}, needs_database=False),
        read(f"{TRAFFIC}/{{number:[0-9]{{1,15}}}}", "traffic-request", traffic.handle_one,
             "Show a request", "The request.", parameters=(_NUMBER, PROCESS),
             problems=(NoTrafficError, RequestNotKeptError, InvalidInputError), needs_database=False),
        read(f"{TRAFFIC}/calls/{{call:{ANY_ID}}}", "traffic-call", traffic.handle_call,
             "Show the lifetime of a call", "The lifetime.", parameters=(PROCESS,),
             problems=(CallNotFoundError, InvalidInputError)),
    )  # fmt: skip
