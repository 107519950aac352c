"""The page of traffic: the list of requests, its stream, and one request with the lifetime of its call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from bridge_server.admin.handles import Handles
from bridge_server.admin.neighbours import Neighbours
from bridge_server.admin.traffic import wire
from bridge_server.admin.traffic.errors import NoTrafficError, RequestNotKeptError
from bridge_server.admin.traffic.filtering import Filter, read_filter
from bridge_server.admin.traffic.following import StreamOfAll, WantedStream
from bridge_server.admin.traffic.gathering import TrafficEverywhere
from bridge_server.admin.traffic.lives import LivesEverywhere
from bridge_server.admin.traffic.positions import read_positions
from bridge_server.admin.traffic.stream import OpenStream, TrafficStreams
from bridge_server.admin.traffic.subjects import subject_of
from bridge_server.console.models import (
    ROOT,
    Asked,
    ConsolePage,
    NavigationGroup,
    PagePath,
    PageStream,
    View,
)
from bridge_server.console.process_choice import chosen_process
from bridge_server.console.traffic.contents import problem_of, readable
from bridge_server.console.traffic.repeating import repeat_of
from bridge_server.console.traffic.rows import has_failed, placed, request_text, row_fields, status_text
from bridge_server.console.traffic.sealed import sealed_payloads
from bridge_server.kernel.errors import BridgeError, InvalidInputError, NotFoundError, UnavailableError
from bridge_server.relay.errors import CallNotFoundError
from bridge_server.web.traffic import MOST_REQUESTS, TrafficLog

_PATH = "/traffic"
_STREAM = f"{_PATH}/stream"
_REQUEST = f"{_PATH}/{{number:[0-9]{{1,15}}}}"
_PAGE = 100
_KINDS = ("errors", "waits", "rpc")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The filter that a person typed, with the kind of requests that a button chose."""

    text: str
    kind: str

    @property
    def query(self) -> str:
        """The query that asks for this list."""
        given = {name: value for name, value in (("filter", self.text), ("only", self.kind)) if value}
        return f"?{urlencode(given)}" if given else ""

    @property
    def words(self) -> str:
        """Both in the words of a filter."""
        return f"{self.text} is:{self.kind}" if self.kind else self.text

    def filter(self, handles: Handles) -> Filter:
        """Raises InvalidInputError."""
        return read_filter(self.words, handles)


class TrafficPage:
    """The views of the record. `streams` spell the rows of this page; without them no record is kept.

    `bridge_url` is the address of the bridge, None where it is the console's. `answers_calls` says
    whether a page may answer a call as the wallet does: in test mode, where the record has the ids of calls.
    """

    def __init__(
        self,
        streams: TrafficStreams | None,
        lives: LivesEverywhere,
        handles: Handles,
        neighbours: Neighbours | None,
        bridge_url: str | None,
        *,
        answers_calls: bool,
    ) -> None:
        self._streams = streams
        self._lists = None if streams is None else _lists(streams, handles, neighbours)
        self._lives = lives
        self._handles = handles
        self._neighbours = neighbours
        self._bridge_url = bridge_url
        self._answers_calls = answers_calls

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage(
            "traffic",
            "Traffic",
            NavigationGroup.LIVE,
            (PagePath(_PATH, self.show_all), PagePath(_REQUEST, self.show)),
            None if self._streams is None or self._neighbours is not None else self._count,
            (PageStream(_STREAM, self.stream),),
        )

    async def show_all(self, asked: Asked) -> View:
        """The requests that pass the filter, newest first."""
        return await self._view(asked, {}, None)

    async def show(self, asked: Asked) -> View:
        """One request beside the list."""
        if self._streams is None:
            return await self._view(asked, {}, RequestNotKeptError(MOST_REQUESTS))
        try:
            shown = await self._shown(asked, self._streams.traffic)
        except (NotFoundError, UnavailableError, InvalidInputError) as error:
            return await self._view(asked, {}, error)
        return await self._view(asked, {"shown": shown}, None)

    def stream(self, asked: Asked) -> OpenStream:
        """The rows of requests that change from now on, or after the change `since`."""
        streams, neighbours = self._streams, self._neighbours
        if streams is None:
            raise NoTrafficError
        wanted, since = _wanted(asked), asked.query.get("since", "")
        chosen = wanted.filter(self._handles)
        if neighbours is None:
            return streams.join(chosen, wire.read_number(since))
        positions = read_positions(since, neighbours.own_number)
        stream = StreamOfAll(
            streams, neighbours, WantedStream(chosen, wanted.words, None, positions), row_fields
        )
        streams.admit(stream)
        return stream

    async def _count(self) -> int:
        return 0 if self._streams is None else len(self._streams.traffic)

    async def _view(self, asked: Asked, more: Mapping[str, Any], error: BridgeError | None) -> View:
        wanted = _wanted(asked)
        fields = {"filter": wanted.text, "only": wanted.kind, "query": wanted.query, "kinds": _KINDS, **more}
        if self._lists is None:
            return View("traffic/off.html", fields, error=error)
        fault = self._fault(wanted)
        listed = await self._list(asked, "" if fault else wanted.words, self._lists)
        is_live = fault is None and not listed["after"]
        stream = f"{ROOT}{_STREAM}{wanted.query}" if is_live else ""
        return View("traffic/traffic.html", {**fields, **listed, "stream": stream}, error=error or fault)

    def _fault(self, wanted: _Wanted) -> BridgeError | None:
        """What is wrong with a filter that means nothing; None for any other."""
        try:
            wanted.filter(self._handles)
        except InvalidInputError as error:
            return error
        return None

    async def _list(self, asked: Asked, words: str, lists: TrafficEverywhere) -> dict[str, Any]:
        after = asked.query.get("after", "")
        try:
            page = await lists.page(words, after, _PAGE)
        except InvalidInputError:  # of a page that is not there any more, or that never was
            page, after = await lists.page(words, "", _PAGE), ""
        rows = [placed(row_fields(each), _wanted(asked).query) for each in page["requests"]]
        return {
            "rows": rows,
            "last": page["last"],
            "next": page["next"],
            "after": after,
            "processes": page.get("processes", ()),
        }

    async def _found(self, asked: Asked, traffic: TrafficLog) -> tuple[dict[str, Any], str | None]:
        """The request that is asked for, and the id of the call that it is about.

        Raises RequestNotKeptError, NotFoundError, InvalidInputError, UnavailableError.
        """
        number, process = int(asked.names["number"]), chosen_process(asked)
        neighbours = self._neighbours
        if self._lists is not None and neighbours is not None:
            own = neighbours.own_number
            if process is not None and process != own:
                fields = {**await self._lists.one(number, process), "process": process}
                call = fields["call"]
                return fields, None if call is None else self._handles.id_of(call["handle"] or "")
        recorded = traffic.find(number)
        if recorded is None:
            raise RequestNotKeptError(MOST_REQUESTS)
        named = {} if neighbours is None else {"process": neighbours.own_number}
        fields = wire.request_fields(recorded, traffic, self._handles) | named
        return fields, subject_of(recorded.exchange).call_id

    async def _shown(self, asked: Asked, traffic: TrafficLog) -> dict[str, Any]:
        fields, call_id = await self._found(asked, traffic)
        life = await self._life(call_id, _wanted(asked))
        can_answer = self._answers_calls and life is not None and life["state"] == "waiting"
        return {
            **placed(fields, _wanted(asked).query),
            "heading": request_text(fields),
            "outcome": status_text(fields),
            "is_error": has_failed(fields),
            "problem": problem_of(fields),
            "life": life,
            "sealed": sealed_payloads(fields),
            "answerable": call_id if can_answer else None,
            "repeat": repeat_of(fields, self._bridge_url or f"http://{asked.host}"),
            "messages": [
                (name, message, readable(message["body"]))
                for name, message in (("Request", fields.get("request")), ("Answer", fields.get("answer")))
                if message is not None
            ],
            "keeps_contents": traffic.keeps_contents,
        }

    async def _life(self, call_id: str | None, wanted: _Wanted) -> dict[str, Any] | None:
        if call_id is None:
            return None
        try:
            life = await self._lives.of(call_id)
        except CallNotFoundError:
            return None
        for step in life["steps"]:
            if step["request"] is not None:
                step["request"] = placed(step["request"], wanted.query)
        return life


def _lists(streams: TrafficStreams, handles: Handles, neighbours: Neighbours | None) -> TrafficEverywhere:
    traffic = streams.traffic
    return TrafficEverywhere(streams, lambda each: wire.line_fields(each, traffic), handles, neighbours)


def _wanted(asked: Asked) -> _Wanted:
    kind = asked.query.get("only", "")
    return _Wanted(asked.query.get("filter", "").strip(), kind if kind in _KINDS else "")
