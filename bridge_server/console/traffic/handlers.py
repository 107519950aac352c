"""The page of traffic: the list of requests, its stream, and one request with the lifetime of its call."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

import orjson

from bridge_server.admin.handles import Handles
from bridge_server.admin.traffic import wire
from bridge_server.admin.traffic.errors import NoTrafficError, RequestNotKeptError
from bridge_server.admin.traffic.filtering import EVERYTHING, Filter, read_filter
from bridge_server.admin.traffic.lifetime import CallLives
from bridge_server.admin.traffic.stream import TrafficStream, TrafficStreams
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
from bridge_server.console.traffic.repeating import repeat_of
from bridge_server.console.traffic.rows import request_text, row_fields, status_text
from bridge_server.console.traffic.sealed import sealed_payloads
from bridge_server.kernel.errors import BridgeError, InvalidInputError
from bridge_server.relay.errors import CallNotFoundError
from bridge_server.web.exchanges import FIRST_FAILURE, Recorded
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

    def filter(self, handles: Handles) -> Filter:
        """Raises InvalidInputError."""
        return read_filter(f"{self.text} is:{self.kind}" if self.kind else self.text, handles)


class TrafficPage:
    """The views of the record. `streams` spell the rows of this page; without them no record is kept.

    `bridge_url` is the address of the bridge, None where it is the console's. `answers_calls` says
    whether a page may answer a call as the wallet does: in test mode, where the record has the ids of calls.
    """

    def __init__(
        self,
        streams: TrafficStreams | None,
        lives: CallLives,
        handles: Handles,
        bridge_url: str | None,
        *,
        answers_calls: bool,
    ) -> None:
        self._streams = streams
        self._lives = lives
        self._handles = handles
        self._bridge_url = bridge_url
        self._answers_calls = answers_calls

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage(
            "traffic",
            "Traffic",
            NavigationGroup.LIVE,
            (PagePath(_PATH, self.show_all), PagePath(_REQUEST, self.show)),
            None if self._streams is None else self._count,
            (PageStream(_STREAM, self.stream),),
        )

    async def show_all(self, asked: Asked) -> View:
        """The requests that pass the filter, newest first."""
        return self._view(asked, {}, None)

    async def show(self, asked: Asked) -> View:
        """One request beside the list."""
        streams = self._streams
        found = None if streams is None else streams.traffic.find(int(asked.names["number"]))
        if streams is None or found is None:
            return self._view(asked, {}, RequestNotKeptError(MOST_REQUESTS))
        shown = await self._shown(found, streams.traffic, asked)
        return self._view(asked, {"shown": shown}, None)

    def stream(self, asked: Asked) -> TrafficStream:
        """The rows of requests that change from now on, or after the change `since`."""
        if self._streams is None:
            raise NoTrafficError
        since = wire.read_number(asked.query.get("since", ""))
        return self._streams.join(_wanted(asked).filter(self._handles), since)

    async def _count(self) -> int:
        return 0 if self._streams is None else len(self._streams.traffic)

    def _view(self, asked: Asked, more: Mapping[str, Any], error: BridgeError | None) -> View:
        wanted = _wanted(asked)
        fields = {"filter": wanted.text, "only": wanted.kind, "query": wanted.query, "kinds": _KINDS, **more}
        if self._streams is None:
            return View("traffic/off.html", fields, error=error)
        chosen, fault = self._chosen(wanted)
        listed = self._list(asked, chosen, self._streams.traffic)
        is_live = fault is None and not asked.query.get("after")
        stream = f"{ROOT}{_STREAM}{wanted.query}" if is_live else ""
        return View("traffic/traffic.html", {**fields, **listed, "stream": stream}, error=error or fault)

    def _chosen(self, wanted: _Wanted) -> tuple[Filter, BridgeError | None]:
        """The filter, and its fault. A faulty filter lets everything through."""
        try:
            return wanted.filter(self._handles), None
        except InvalidInputError as error:
            return EVERYTHING, error

    def _list(self, asked: Asked, chosen: Filter, traffic: TrafficLog) -> dict[str, Any]:
        after = asked.query.get("after", "")
        kept = traffic.before(int(after) if after.isascii() and after.isdigit() and len(after) < 16 else None)
        found = list(islice(filter(chosen.passes, kept), _PAGE + 1))
        return {
            "rows": [row_fields(wire.line_fields(each, traffic)) for each in found[:_PAGE]],
            "last": traffic.newest(),
            "next": found[_PAGE - 1].number if len(found) > _PAGE else None,
            "after": after,
        }

    async def _shown(self, recorded: Recorded, traffic: TrafficLog, asked: Asked) -> dict[str, Any]:
        fields = wire.request_fields(recorded, traffic, self._handles)
        life = await self._life(recorded, traffic)
        subject = subject_of(recorded.exchange)
        can_answer = self._answers_calls and life is not None and life["state"] == "waiting"
        return {
            **fields,
            "heading": request_text(fields),
            "outcome": status_text(fields),
            "is_error": not recorded.is_waiting and recorded.exchange.is_error,
            "problem": _problem(fields),
            "life": life,
            "sealed": sealed_payloads(fields),
            "answerable": subject.call_id if can_answer else None,
            "repeat": repeat_of(fields, self._bridge_url or f"http://{asked.host}"),
            "messages": [
                (name, message, _readable(message["body"]))
                for name, message in (("Request", fields.get("request")), ("Answer", fields.get("answer")))
                if message is not None
            ],
            "keeps_contents": traffic.keeps_contents,
        }

    async def _life(self, recorded: Recorded, traffic: TrafficLog) -> dict[str, Any] | None:
        call_id = subject_of(recorded.exchange).call_id
        if call_id is None:
            return None
        try:
            return wire.life_fields(await self._lives.of(call_id), traffic, self._handles)
        except CallNotFoundError:
            return None


def _wanted(asked: Asked) -> _Wanted:
    kind = asked.query.get("only", "")
    return _Wanted(asked.query.get("filter", "").strip(), kind if kind in _KINDS else "")


def _problem(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The problem that answered a failed request; None if its answer is not kept, or is none."""
    if fields["status"] is None or fields["status"] < FIRST_FAILURE:
        return None
    try:
        document = orjson.loads(fields.get("answer", {}).get("body", ""))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or "title" not in document:
        return None
    return {name: document.get(name, "") for name in ("title", "detail", "errors")}


def _readable(body: str) -> str:
    """JSON with its members on lines of their own; another body as it is."""
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return body
