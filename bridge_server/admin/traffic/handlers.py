"""Handlers of the record of requests."""

from collections.abc import Sequence
from itertools import islice

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.handles import Handles
from bridge_server.admin.neighbours import Fields, Neighbours, wanted_process
from bridge_server.admin.pages import wanted_page
from bridge_server.admin.traffic import merging, wire
from bridge_server.admin.traffic.errors import NoTrafficError, RequestNotKeptError
from bridge_server.admin.traffic.filtering import Filter, read_filter
from bridge_server.admin.traffic.lifetime import CallLives
from bridge_server.admin.traffic.stream import TrafficStreams
from bridge_server.relay.errors import CallNotFoundError
from bridge_server.web.event_stream import EventStream
from bridge_server.web.exchanges import Recorded
from bridge_server.web.traffic import MOST_REQUESTS, TrafficLog


class TrafficHandlers:
    """One method per endpoint. Without `streams` no record is kept, and the answers say how to keep one."""

    def __init__(
        self,
        streams: TrafficStreams | None,
        lives: CallLives,
        handles: Handles,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._streams = streams
        self._lives = lives
        self._handles = handles
        self._neighbours = neighbours

    async def requests(self, request: web.Request) -> web.Response:
        traffic, neighbours = self._require().traffic, self._neighbours
        there = await self._elsewhere(request)
        if there is not None:
            return fields_answer(there)
        if neighbours is None or "process" in request.query or "since" in request.query:
            return fields_answer(await self._own(request, traffic))
        return fields_answer(await self._of_all(request, traffic, neighbours))

    async def _elsewhere(self, request: web.Request) -> Fields | None:
        """The answer of the process that the request names; None if that is this one, or none is named."""
        neighbours = self._neighbours
        wanted = None if neighbours is None else wanted_process(request)
        if neighbours is None or not isinstance(wanted, int) or wanted == neighbours.own_number:
            return None
        query = {name: value for name, value in request.query.items() if name != "process"}
        return await neighbours.ask_one(wanted, request.path, query)

    async def _own(self, request: web.Request, traffic: TrafficLog) -> Fields:
        after, limit = wanted_page(request)
        chosen, following = self._filter(request), wire.read_following(request.query)
        if following is not None:
            changes = await self._follow(following, chosen)
            return wire.news_fields(changes, limit, traffic, self._handles)
        return self._page(chosen, wire.read_number(after), limit, traffic)

    def _page(self, chosen: Filter, after: int | None, limit: int, traffic: TrafficLog) -> Fields:
        found = list(islice(filter(chosen.passes, traffic.before(after)), limit + 1))
        return wire.page_fields(found, limit, traffic, self._handles)

    async def _of_all(self, request: web.Request, traffic: TrafficLog, neighbours: Neighbours) -> Fields:
        after, limit = wanted_page(request)
        cursor, chosen, own = merging.read_cursor(after), self._filter(request), neighbours.own_number
        mine = None if cursor.has_ended(own) else self._page(chosen, cursor.of(own), limit, traffic)
        replies = await neighbours.ask_all(
            request.path, lambda number: merging.page_query(cursor, number, limit, request.query)
        )
        return merging.merged_page(cursor, own, mine, replies, limit, traffic.newest())

    async def one(self, request: web.Request) -> web.Response:
        traffic = self._require().traffic
        there = await self._elsewhere(request)
        if there is not None:
            return fields_answer(there)
        found = traffic.find(int(request.match_info["number"]))
        if found is None:
            raise RequestNotKeptError(MOST_REQUESTS)
        return fields_answer(wire.request_fields(found, traffic, self._handles))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        last_event = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        streams, position = self._require(), wire.read_number(last_event)
        return EventStream(streams.join(self._filter(request), position))

    async def call(self, request: web.Request) -> web.Response:
        call_id = self._handles.id_of(request.match_info["call"])
        if call_id is None:
            raise CallNotFoundError
        traffic = None if self._streams is None else self._streams.traffic
        life = await self._lives.of(call_id)
        return fields_answer(wire.life_fields(life, traffic, self._handles))

    async def _follow(self, following: wire.Following, chosen: Filter) -> list[Recorded]:
        """The changes after a known change, the oldest first; the call waits until there is one."""
        streams = self._require()
        traffic = streams.traffic
        since = following.since if following.since <= traffic.newest() else 0  # the record was cleared

        async def read() -> Sequence[Recorded] | None:
            return [each for each in traffic.changed_after(since) if chosen.passes(each)] or None

        streams.rouse()
        changes = await traffic.news(read, following.wait_seconds) or ()
        return list(reversed(changes))

    def _filter(self, request: web.Request) -> Filter:
        return read_filter(request.query.get("filter", ""), self._handles)

    def _require(self) -> TrafficStreams:
        if self._streams is None:
            raise NoTrafficError
        return self._streams
