"""The page of traffic: the list of requests, its stream, and one request with the lifetime of its call."""

import json
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

import orjson

from bridge_server.admin.other_processes import read_positions
from bridge_server.admin.rows import shortened
from bridge_server.admin.traffic import NoTrafficError, RequestLists, RequestNotKeptError
from bridge_server.admin.traffic_records import CallLives, line_fields, read_filter, read_number
from bridge_server.admin.traffic_stream import OpenStream, StreamOfAll, TrafficStreams, WantedStream
from bridge_server.admin.wallet import ApprovalAdmin
from bridge_server.console.models import ROOT, Asked, Change, ConsolePage, Done, PagePath, PageStream, View
from bridge_server.console.rendering import chosen_process, seen
from bridge_server.kernel.errors import BridgeError, InvalidInputError, NotFoundError, UnavailableError
from bridge_server.kernel.values import dataclass
from bridge_server.relay.models import CallNotFoundError
from bridge_server.wallet.models import ApprovalState
from bridge_server.web.traffic import CLIENT_LEFT, FIRST_FAILURE, has_missed, with_short_ids

_PATH = "/traffic"
_STREAM = f"{_PATH}/stream"
_REQUEST = f"{_PATH}/{{number:[0-9]{{1,15}}}}"
_PAGE = 100
_KINDS = ("errors", "waits", "rpc")


# Rows of the list of requests, for the page and for its stream of events.

_BRIDGE = "bridge"
_GENERATIONS = ("1.x", "2.x")


def row_fields(line: Mapping[str, Any]) -> dict[str, Any]:
    """The texts of a row, of what the admin API answers of a request; its process where there are several."""
    process = {"process": line["process"]} if "process" in line else {}
    took = ""
    if line["status"] is not None:
        took = f"waited {line['waited']:.1f} s" if line["waited"] else f"{line['milliseconds']:.0f} ms"
    return process | {
        "number": line["number"],
        "change": line["change"],
        "at": line["at"],
        "who": line["who"],
        "request": seen(f"{line['method']} {line['summary']}" if is_of_socket(line) else request_text(line)),
        "status": status_text(line),
        "tone": _tone(line),
        "took": took,
        "waits": line["waits"],
        "summary": "" if is_of_socket(line) else seen(line["summary"]),
        "approval": line["approval"],
    }


def placed(line: Mapping[str, Any], query: str) -> dict[str, Any]:
    """The row with the name of its place, and the address of its page; `query` asks for the list."""
    process = line.get("process")
    if process is None:
        return {**line, "key": f"{line['number']}", "link": f"{line['number']}{query}"}
    link = f"{line['number']}{query}{'&' if query else '?'}process={process}"
    return {**line, "key": f"{process}-{line['number']}", "link": link}


def is_of_socket(line: Mapping[str, Any]) -> bool:
    """Whether the line is a call of a socket, whose summary says all of it."""
    return line["method"] in _GENERATIONS


def request_text(line: Mapping[str, Any]) -> str:
    """Method and path with shortened ids; an arrow before the address if the server sent the request."""
    path = with_short_ids(line["path"])
    return f"→ {path}" if line["who"] == _BRIDGE else f"{line['method']} {path}"


def status_text(line: Mapping[str, Any]) -> str:
    """The status, or a word in its place."""
    status = line["status"]
    if status is None:
        return f"waits {line['waits']:.1f} s"
    return {0: "no answer", CLIENT_LEFT: "client left"}.get(status, str(status))


def has_failed(line: Mapping[str, Any]) -> bool:
    """Whether the request was answered with an error, or had no answer."""
    status = line["status"]
    return status is not None and (status == 0 or status >= FIRST_FAILURE)


def _tone(line: Mapping[str, Any]) -> str:
    if line["status"] is None:
        return "waits"
    if has_missed(line["route"], line["summary"]):
        return "warn"
    return "bad" if has_failed(line) else "good"


def problem_of(fields: Mapping[str, Any]) -> dict[str, Any] | None:
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


def readable(body: str) -> str:
    """JSON with its members on lines of their own; another body as it is."""
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return body


# The encrypted payloads in a request and in its answer. The server cannot read them.

_PAYLOAD = "encryptionPayload"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A payload as it was sent, and its place."""

    place: str
    text: str


def sealed_payloads(fields: Mapping[str, Any]) -> list[Sealed]:
    """The payloads of a request as the admin API answers it; none where no bodies are kept."""
    return [
        payload
        for message, place in (("request", "sent"), ("answer", "answered"))
        for payload in _in_body(fields.get(message, {}).get("body", ""), place)
    ]


def _in_body(body: str, place: str) -> Iterator[Sealed]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:  # no JSON, or only its beginning is kept
        return
    if not isinstance(document, dict):
        return
    inner = document.get("data")  # the envelope of a call
    holder = inner if isinstance(inner, dict) else document
    if _PAYLOAD in holder:
        yield Sealed(place, _text(holder[_PAYLOAD]))
        return
    for call_id, call in holder.items():
        if isinstance(call, dict) and _PAYLOAD in call:
            yield Sealed(f"call {shortened(call_id)}", _text(call[_PAYLOAD]))


def _text(payload: Any) -> str:
    return payload if isinstance(payload, str) else orjson.dumps(payload).decode()


# A recorded request as a line of curl, as Python, and as JavaScript.
#
# The texts are ASCII: whatever a client sent, a terminal gets no control character from the clipboard.

_MADE_ANEW = frozenset(
    {"accept-encoding", "connection", "content-length", "cookie", "host", "keep-alive", "transfer-encoding"}
)
_OF_BROWSERS = ("sec-", "proxy-")
_HIDDEN = "…"
_TOKEN = "Bearer TOKEN"  # noqa: S105 - the place of a token
_BODILESS = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: str


def repeat_of(fields: Mapping[str, Any], bridge_url: str) -> dict[str, str] | None:
    """The request in three languages, to send it again; None if it went elsewhere or its body is not kept."""
    sent = fields.get("request")
    body = "" if sent is None else sent["body"]
    is_whole = fields["method"] in _BODILESS if sent is None else len(body.encode()) == sent["bytes"]
    if fields["who"] == _BRIDGE or not is_whole:
        return None
    headers = {
        name: _TOKEN if value == _HIDDEN else value
        for name, value in ({} if sent is None else sent["headers"]).items()
        if name.lower() not in _MADE_ANEW and not name.lower().startswith(_OF_BROWSERS)
    }
    request = _Request(fields["method"], bridge_url + fields["path"], headers, body)
    notes = []
    if _TOKEN in headers.values():
        notes.append("Put the token in the place of TOKEN.")
    if _HIDDEN in request.url:
        notes.append("Ids are shortened: put the whole ones in their places.")
    spelled = {"curl": _curl(request), "python": _python(request), "javascript": _javascript(request)}
    return {**spelled, "note": " ".join(notes)}


def _curl(request: _Request) -> str:
    lines = [f"curl -gisS -X {_shell(request.method)} {_shell(request.url)}"]
    lines += [f"-H {_shell(f'{name}: {value}')}" for name, value in request.headers.items()]
    if request.body:
        if not any(name.lower() == "content-type" for name in request.headers):
            lines.append("-H 'Content-Type:'")
        lines.append(f"--data-raw {_shell(request.body)}")
    return " \\\n  ".join(lines)


def _shell(text: str) -> str:
    """A word of a shell; bytes that are not printable ASCII are escaped as bash and zsh read them."""
    if text.isascii() and text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text.encode(errors="replace"))) + "'"


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in "\\'":
        return f"\\{character}"
    return character if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


def _python(request: _Request) -> str:
    body = f"    data={request.body!a}.encode(),\n" if request.body else ""
    return (
        "import urllib.error\n"
        "import urllib.request\n\n"
        "request = urllib.request.Request(\n"
        f"    {request.url!a},\n"
        f"    method={request.method!a},\n"
        f"    headers={dict(request.headers)!a},\n"
        f"{body})\n"
        "try:\n"
        "    answer = urllib.request.urlopen(request)\n"
        "except urllib.error.HTTPError as error:\n"
        "    answer = error\n"
        "print(answer.status, answer.read().decode())\n"
    )


def _javascript(request: _Request) -> str:
    options: dict[str, Any] = {"method": request.method, "headers": dict(request.headers)}
    if request.body:
        options["body"] = request.body
    return (
        f"const answer = await fetch({json.dumps(request.url)}, {json.dumps(options, indent=2)})\n"
        "console.log(answer.status, await answer.text())\n"
    )


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
        """The text and the kind as one filter."""
        return f"{self.text} is:{self.kind}" if self.kind else self.text


class TrafficPage:
    """The views of the record of requests, if one is kept. `approvals` decides requests that wait for a
    person; None where the console may not. `bridge_url` is None where it is the console's. In test mode a
    page `answers_calls`, as the wallet does: the record has the ids of calls.
    """

    def __init__(
        self,
        streams: TrafficStreams | None,
        lives: CallLives,
        approvals: ApprovalAdmin | None,
        bridge_url: str | None,
        *,
        answers_calls: bool,
    ) -> None:
        self._approvals, self._streams, self._lives = approvals, streams, lives
        self._handles, self._neighbours = lives.handles, lives.processes.neighbours
        self._lists = None
        if streams is not None:
            spell = partial(line_fields, traffic=streams.traffic)
            self._lists = RequestLists(streams, spell, lives)
        self._bridge_url, self._answers_calls = bridge_url, answers_calls
        paths = (PagePath(_PATH, self.show_all, self._changes()), PagePath(_REQUEST, self.show))
        count = None if streams is None or self._neighbours is not None else self._count
        stream = PageStream(_STREAM, self.stream)
        self.page = ConsolePage("traffic", "Traffic", "Live", paths, count, (stream,))

    async def show_all(self, asked: Asked) -> View:
        """The requests that pass the filter, newest first."""
        return await self._view(asked, {}, None)

    async def show(self, asked: Asked) -> View:
        """One request beside the list."""
        if self._lists is None:
            return await self._view(asked, {}, RequestNotKeptError())
        try:
            shown = await self._shown(asked, self._lists)
        except (NotFoundError, UnavailableError, InvalidInputError) as error:
            return await self._view(asked, {}, error)
        return await self._view(asked, {"shown": shown}, None)

    def stream(self, asked: Asked) -> OpenStream:
        """The rows of requests that change from now on, or after the change `since`."""
        streams, neighbours = self._streams, self._neighbours
        if streams is None:
            raise NoTrafficError
        wanted, since = _wanted(asked), asked.query.get("since", "")
        chosen = read_filter(wanted.words, self._handles)
        if neighbours is None:
            return streams.join(chosen, read_number(since))
        positions = read_positions(since, neighbours.own_number)
        of_all = WantedStream(chosen, wanted.words, None, positions)
        stream = StreamOfAll(streams, neighbours, of_all, row_fields)
        streams.admit(stream)
        return stream

    def _changes(self) -> Mapping[str, Change]:
        """The buttons of a row that waits for a person."""
        approvals = self._approvals
        if approvals is None:
            return {}

        async def decide(decision: ApprovalState, outcome: str, asked: Asked) -> Done:
            decided = await approvals.decide(asked.form.get("approval", ""), decision)
            return Done(f"{ROOT}{_PATH}{_wanted(asked).query}", f"{decided['method']} is {outcome}")

        return {
            "approve": partial(decide, ApprovalState.APPROVED, "approved: the wallet signs it."),
            "reject": partial(decide, ApprovalState.REJECTED, "rejected."),
        }

    async def _count(self) -> int:
        return 0 if self._streams is None else len(self._streams.traffic)

    async def _view(self, asked: Asked, more: Mapping[str, Any], error: BridgeError | None) -> View:
        wanted = _wanted(asked)
        fields = {
            "filter": wanted.text,
            "only": wanted.kind,
            "query": wanted.query,
            "kinds": _KINDS,
            "may_sign": self._approvals is not None,
            **more,
        }
        if self._lists is None:
            return View("traffic/off.html", fields, error=error)
        fault: BridgeError | None = None
        try:
            read_filter(wanted.words, self._handles)
        except InvalidInputError as refused:
            fault = refused
        listed = await self._list(asked, "" if fault else wanted.words, self._lists)
        is_live = fault is None and not listed["after"]
        stream = f"{ROOT}{_STREAM}{wanted.query}" if is_live else ""
        return View("traffic/traffic.html", {**fields, **listed, "stream": stream}, error=error or fault)

    async def _list(self, asked: Asked, words: str, lists: RequestLists) -> dict[str, Any]:
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

    async def _shown(self, asked: Asked, lists: RequestLists) -> dict[str, Any]:
        """The request. Raises RequestNotKeptError, NotFoundError, InvalidInputError, UnavailableError."""
        process, neighbours = chosen_process(asked), self._neighbours
        fields: dict[str, Any] = {**await lists.one(int(asked.names["number"]), process)}
        if neighbours is not None:
            fields["process"] = neighbours.own_number if process is None else process
        call_id = self._handles.id_of((fields["call"] or {}).get("handle") or "")
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
            "keeps_contents": lists.keeps_contents,
        }

    async def _life(self, call_id: str | None, wanted: _Wanted) -> dict[str, Any] | None:
        if call_id is None:
            return None
        try:
            life = await self._lives.of(call_id)
        except CallNotFoundError:
            return None
        steps = [
            {**step, "request": None if step["request"] is None else placed(step["request"], wanted.query)}
            for step in life["steps"]
        ]
        return {**life, "steps": steps}


def _wanted(asked: Asked) -> _Wanted:
    kind = asked.query.get("only", "")
    return _Wanted(asked.query.get("filter", "").strip(), kind if kind in _KINDS else "")
