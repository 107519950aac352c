"""Handlers of the record of requests."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.handles import Handles
from bridge_server.admin.neighbours import OWN, Fields, Neighbours, wanted_process
from bridge_server.admin.pages import wanted_page
from bridge_server.admin.traffic import wire
from bridge_server.admin.traffic.errors import NoTrafficError
from bridge_server.admin.traffic.filtering import read_filter
from bridge_server.admin.traffic.following import StreamOfAll, WantedStream
from bridge_server.admin.traffic.gathering import TrafficEverywhere
from bridge_server.admin.traffic.lives import LivesEverywhere
from bridge_server.admin.traffic.positions import read_position, read_positions
from bridge_server.admin.traffic.stream import OpenStream, TrafficStreams
from bridge_server.relay.errors import CallNotFoundError
from bridge_server.web.event_stream import EventStream


class TrafficHandlers:
    """One method per endpoint. Without `streams` no record is kept, and the answers say how to keep one."""

    def __init__(
        self,
        streams: TrafficStreams | None,
        lives: LivesEverywhere,
        handles: Handles,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._streams = streams
        self._lists = (
            None if streams is None else TrafficEverywhere(streams, streams.spell, handles, neighbours)
        )
        self._lives = lives
        self._handles = handles
        self._neighbours = neighbours

    async def requests(self, request: web.Request) -> web.Response:
        lists, process = self._require_lists(), self._wanted_process(request)
        after, limit = wanted_page(request)
        words, following = request.query.get("filter", ""), wire.read_following(request.query)
        if following is not None:
            return fields_answer(await lists.changes(words, following, limit, process))
        return fields_answer(await lists.page(words, after, limit, process))

    async def one(self, request: web.Request) -> web.Response:
        lists, process = self._require_lists(), self._wanted_process(request)
        return fields_answer(await lists.one(int(request.match_info["number"]), process))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        last_event = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        return EventStream(await self._opened(request, last_event, self._require()))

    async def _opened(self, request: web.Request, last_event: str, streams: TrafficStreams) -> OpenStream:
        neighbours, process = self._neighbours, self._wanted_process(request)
        words = request.query.get("filter", "")
        chosen = read_filter(words, self._handles)
        if neighbours is None:
            return streams.join(chosen, wire.read_number(last_event))
        own = neighbours.own_number
        if process in (OWN, own):
            return streams.join(chosen, read_position(last_event, own), is_inner=process == OWN)
        named = process if isinstance(process, int) else None
        wanted = WantedStream(chosen, words, named, read_positions(last_event, named or own))
        if named is not None:
            await neighbours.find(named)
        stream = StreamOfAll(streams, neighbours, wanted, _as_it_is)
        await stream.begin()
        streams.admit(stream)
        return stream

    async def call(self, request: web.Request) -> web.Response:
        call_id = self._handles.id_of(request.match_info["call"])
        if call_id is None:
            raise CallNotFoundError
        return fields_answer(await self._lives.of(call_id, self._wanted_process(request)))

    def _wanted_process(self, request: web.Request) -> str | int | None:
        """The process that the request names, where there are several. Raises InvalidInputError."""
        return None if self._neighbours is None else wanted_process(request, self._neighbours)

    def _require(self) -> TrafficStreams:
        if self._streams is None:
            raise NoTrafficError
        return self._streams

    def _require_lists(self) -> TrafficEverywhere:
        if self._lists is None:
            raise NoTrafficError
        return self._lists


def _as_it_is(fields: Fields) -> Fields:
    return fields
