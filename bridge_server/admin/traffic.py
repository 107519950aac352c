"""The last requests, as they are listed and shown to the operator."""

from aiohttp import web

from bridge_server.admin.other_processes import (
    OWN,
    Neighbours,
    read_position,
    read_positions,
    wanted_process,
)
from bridge_server.admin.rows import ANY_ID, AdminRows, Handles, fields_answer, wanted_page
from bridge_server.admin.traffic_records import (
    LivesEverywhere,
    NoTrafficError,
    read_filter,
    read_following,
    read_number,
)
from bridge_server.admin.traffic_stream import (
    OpenStream,
    StreamOfAll,
    TrafficEverywhere,
    TrafficStreams,
    WantedStream,
)
from bridge_server.relay.models import CallNotFoundError
from bridge_server.web.answers import EventStream
from bridge_server.web.routes import Route


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
        words, following = request.query.get("filter", ""), read_following(request.query)
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
            return streams.join(chosen, read_number(last_event))
        own = neighbours.own_number
        if process in (OWN, own):
            return streams.join(chosen, read_position(last_event, own), is_inner=process == OWN)
        named = process if isinstance(process, int) else None
        wanted = WantedStream(chosen, words, named, read_positions(last_event, named or own))
        if named is not None:
            await neighbours.find(named)
        stream = StreamOfAll(streams, neighbours, wanted, lambda fields: fields)
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


_TRAFFIC = "/admin/traffic"


def traffic_routes(handlers: TrafficHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The list, one request, the stream, and the lifetime of a call."""
    return (
        rows.read(_TRAFFIC, "traffic", handlers.requests, waits=True),
        rows.read(f"{_TRAFFIC}/stream", "traffic-stream", handlers.stream),
        rows.read(f"{_TRAFFIC}/{{number:[0-9]{{1,15}}}}", "traffic-request", handlers.one),
        rows.read(f"{_TRAFFIC}/calls/{{call:{ANY_ID}}}", "traffic-call", handlers.call),
    )
