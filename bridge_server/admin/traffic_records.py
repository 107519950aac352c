"""Records of requests: their JSON, the filter a person types, and the lifetimes of calls."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, NotRequired, TypeAlias, cast

import orjson

from bridge_server.admin.other_processes import Cluster, Fields, Pages, ProcessAnswer, WantedProcess
from bridge_server.admin.rows import Handles, shortened
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError, LimitError
from bridge_server.kernel.instants import milliseconds_of, rfc3339, rfc3339_or_none
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.message_store import PendingMessage
from bridge_server.outbox.models import OutgoingMessage, Queue
from bridge_server.relay.models import CALL_WEBHOOK, CallNotFoundError
from bridge_server.relay.store import SessionList, StoredCallLife, made_at_ms
from bridge_server.web.shapes import Count, Milliseconds, Moment, NextPage, TypedDict, number, one_of, text
from bridge_server.web.traffic import APPROVAL, Exchange, Recorded, TrafficLog, with_short_ids


class TooManyFollowersError(LimitError, code="too-many-streams", title="Too many open streams"):
    """The limit of open streams is reached."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} streams of requests are open, and may be no more. Close one first.", 10)


Seconds = Annotated[float, number(0, minimum=0)]


class NamedThingAnswer(TypedDict):
    """A session or a call: the beginning of its id, and its handle in the paths of the admin API."""

    id: Annotated[str, text("0192f7c8…")]
    handle: Annotated[str, text("s4Jd0cRkW1x2y3z4A5b6Cw")] | None


class KeptContentsAnswer(TypedDict):
    """Header fields without tokens, and the first 16 KiB of a body. Only test mode keeps them."""

    headers: dict[str, str]
    body: str
    bytes: Count


class RequestLine(TypedDict):
    """A request without its contents, and without the session and the call that it is about. While it waits
    for a person, `approval` is the id of the approval.
    """

    number: Count
    change: Count
    at: Moment
    who: Annotated[str, text("wallet")]
    method: Annotated[str, text("GET")]
    path: Annotated[str, text("/session/0192f7c8…/calls")]
    route: Annotated[str, text("calls")]
    status: Count | None
    milliseconds: Milliseconds | None
    waits: Seconds | None
    waited: Seconds
    summary: str
    approval: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")] | None


class KeptRequestAnswer(RequestLine):
    """A request. Its status is null while it waits."""

    session: NamedThingAnswer | None
    call: NamedThingAnswer | None
    process: NotRequired[Count]
    request: NotRequired[KeptContentsAnswer]
    answer: NotRequired[KeptContentsAnswer]


class KeptRequestsAnswer(TypedDict):
    """A page of requests, newest first; with `since` what has changed after it, oldest first,
    without `next`.
    """

    requests: list[KeptRequestAnswer]
    last: Count | Annotated[str, text("1:12,2:7")]
    next: NotRequired[NextPage | None]
    processes: NotRequired[list[ProcessAnswer]]


class CallStepAnswer(TypedDict):
    """A step of a call, with the request that it was, if that is still kept."""

    step: Annotated[str, one_of("asked", "webhook", "fetched", "answered", "status read", "expires")]
    at: Moment | None
    outcome: str | None
    request: KeptRequestAnswer | None


class CallLifeAnswer(TypedDict):
    """The lifetime of a call, step by step."""

    call: NamedThingAnswer
    session: NamedThingAnswer | None
    state: Annotated[str, one_of("waiting", "answered", "gone")]
    expires_at: Moment | None
    steps: list[CallStepAnswer]
    processes: NotRequired[list[ProcessAnswer]]


# The session and the call that a request of the bridge is about, by its path or by its answer.

_ID = r"[A-Za-z0-9_-]{1,128}"
_SESSION = re.compile(rf"/session/+({_ID})(?:/+call/+({_ID}))?", re.ASCII)
_CALL_STATUS = re.compile(rf"/call-status/+({_ID})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Subject:
    """The ids of a session and of a call, as far as the request shows them."""

    session_id: str | None = None
    call_id: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that the request shows."""
        return tuple(each for each in (self.session_id, self.call_id) if each is not None)


def subject_of(exchange: Exchange) -> Subject:
    """The session and the call that the request names, as far as it names any."""
    found = _SESSION.search(exchange.path)
    if found is not None:
        session_id, call_id = (None if each == "new" else each for each in found.groups())
        made = {} if exchange.is_error or not exchange.about else orjson.loads(exchange.about)
        return Subject(session_id or made.get("sessionId"), call_id or made.get("callId"))
    found = _CALL_STATUS.search(exchange.path)
    if found is not None:
        return Subject(call_id=found[1])
    if exchange.who != "bridge":
        return Subject()
    session_id, _, call_id = exchange.about.decode().partition(" ")  # of a webhook
    return Subject(session_id or None, call_id or None)


# The filter of a list of requests: words that a person types, such as `route:call -status:204 who:dapp`.

_MOST_CHARACTERS = 400
_MOST_TERMS = 16
_LEAST_OF_AN_ID = 4
_STATUS = re.compile(r"[0-9]xx|[0-9]{1,3}", re.ASCII)
_DIALECT = "v0.7-"

Test: TypeAlias = Callable[[Recorded], bool]

_KINDS: dict[str, Test] = {
    "errors": lambda each: not each.is_waiting and each.exchange.is_error,
    "waits": lambda each: each.is_waiting or each.exchange.waited_seconds > 0,
    "rpc": lambda each: each.exchange.route == "rpc",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """A request passes if every wanted test is true of it, and no unwanted one."""

    wanted: Sequence[Test] = ()
    unwanted: Sequence[Test] = ()

    def passes(self, recorded: Recorded) -> bool:
        """Whether the request is to be shown."""
        return all(each(recorded) for each in self.wanted) and not any(
            each(recorded) for each in self.unwanted
        )


def read_filter(words: str, handles: Handles) -> Filter:
    """Read a filter. Raises InvalidInputError, which names the unknown word."""
    if len(words) > _MOST_CHARACTERS:
        raise InvalidInputError(f"The query parameter filter takes {_MOST_CHARACTERS} characters at most.")
    terms = words.split()
    if len(terms) > _MOST_TERMS:
        raise InvalidInputError(f"The query parameter filter takes {_MOST_TERMS} words at most.")
    wanted: list[Test] = []
    unwanted: list[Test] = []
    for term in terms:
        is_unwanted = term.startswith("-") and len(term) > 1
        test = _test(term.removeprefix("-") if is_unwanted else term, handles)
        (unwanted if is_unwanted else wanted).append(test)
    return Filter(wanted, unwanted)


def _test(term: str, handles: Handles) -> Test:
    name, colon, value = term.partition(":")
    if not colon:
        return _says(term.lower())
    if not value:
        raise InvalidInputError(f"In the filter, {name}: wants a value behind it.")
    match name:
        case "session" | "call":
            return _is_about(name, value, handles)
        case "status":
            return _has_status(value)
        case "is":
            if value not in _KINDS:
                raise InvalidInputError(f"In the filter, is: takes {', '.join(_KINDS)}.")
            return _KINDS[value]
        case "who":
            return lambda each: each.exchange.who == value.lower()
        case "route":  # also the routes of generation 0.7, which have a prefix
            plain = value.lower().removeprefix(_DIALECT)
            return lambda each: each.exchange.route.lower().removeprefix(_DIALECT) == plain
        case "method":
            return lambda each: each.exchange.method.lower() == value.lower()
    raise InvalidInputError(
        f"The filter does not know {name}: but session:, call:, route:, status:, who:, method:, is:, "
        "a minus before any of them, and plain words."
    )


def _says(word: str) -> Test:
    def says(recorded: Recorded) -> bool:
        each = recorded.exchange
        texts = (each.who, each.method, with_short_ids(each.path), each.route, each.summary)
        return word in " ".join(texts).lower()

    return says


def _is_about(name: str, value: str, handles: Handles) -> Test:
    """Find a session or call by its handle, its id, or the beginning of its id, also with an ellipsis."""
    known, beginning = handles.id_of(value), value.removesuffix("…")

    def is_about(recorded: Recorded) -> bool:
        subject = subject_of(recorded.exchange)
        any_id = subject.session_id if name == "session" else subject.call_id
        is_begun = len(beginning) >= _LEAST_OF_AN_ID and any_id is not None and any_id.startswith(beginning)
        return is_begun or any_id == known is not None

    return is_about


def _has_status(value: str) -> Test:
    if not _STATUS.fullmatch(value):
        raise InvalidInputError(
            "In the filter, status: takes a status such as 404, or 4xx for all that begin so."
        )
    if value.endswith("xx"):
        hundreds = int(value[0])
        return lambda each: not each.is_waiting and each.exchange.status // 100 == hundreds
    status = int(value)
    return lambda each: not each.is_waiting and each.exchange.status == status


class Requests:
    """The record of requests of this process, as answers; there are none where no record is kept."""

    def __init__(self, traffic: TrafficLog | None, handles: Handles, clock: Clock) -> None:
        self._traffic, self.handles = traffic, handles
        self.now_ms = clock.now_ms

    def newest_first(self) -> list[Recorded]:
        """The requests that are still kept."""
        return [] if self._traffic is None else self._traffic.before(None)

    def about(self, ids: set[str]) -> Iterator[KeptRequestAnswer]:
        """The requests about a session or a call with one of these ids, newest first."""
        for recorded in self.newest_first():
            if not ids.isdisjoint(subject_of(recorded.exchange).ids):
                yield self.fields(recorded)

    def fields(self, recorded: Recorded) -> KeptRequestAnswer:
        """One request; with its contents where they are kept."""
        assert self._traffic is not None, "the request has been recorded"
        return request_fields(recorded, self._traffic, self.handles)


# The lifetime of a call across requests: asked, webhook, fetched, answered, status read, expires.
#
# The database knows that the call is there, and whether it has a status; the record of requests knows the
# rest, as far as it goes back.

_STEP_OF_ROUTE = {
    "request-call": "asked",
    "call": "fetched",
    "calls": "fetched",
    "answer-call": "answered",
    "call-status": "status read",
}
_NO_CONTENT = 204
_CALLS = "/admin/traffic/calls"
_CLOCKS_DIFFER_MS = 100  # the clocks of processes agree to some milliseconds only
_KNOWN_WITHOUT_A_REQUEST = frozenset({"asked", "answered"})


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a call. `at_ms` is None for a step that is still to come at no known time."""

    name: str
    at_ms: int | None
    outcome: str = ""
    recorded: Recorded | None = None


class CallLives:
    """The lifetimes of calls. A status can be read for `status_ms`."""

    def __init__(
        self,
        sessions: SessionList,
        requests: Requests,
        pending_of: Callable[[Queue], Awaitable[Sequence[PendingMessage]]],
        status_ms: int,
        processes: Cluster,
    ) -> None:
        self.sessions, self.requests, self._pending_of = sessions, requests, pending_of
        self.status_ms, self.processes = status_ms, processes
        self.handles = requests.handles

    async def of(self, call_id: str, process: WantedProcess = None) -> CallLifeAnswer:
        """The lifetime of this call. Raises CallNotFoundError, NotFoundError, UnavailableError."""
        handle = self.handles.of(call_id)

        async def own() -> CallLifeAnswer | None:
            return await self._own(call_id)

        path = f"{_CALLS}/{handle}"
        asked = own() if handle is None else self.processes.of_all(process, (path, {}), own, merged_life)
        life = await asked
        if life is None:
            raise CallNotFoundError
        return life

    async def _own(self, call_id: str) -> CallLifeAnswer | None:
        """The lifetime as this process knows it; None if it knows nothing of the call."""
        try:
            stored = await self.sessions.call(call_id)
        except CallNotFoundError:
            seen = list(self._seen(call_id, None))
            subjects = [subject_of(step.recorded.exchange) for step in seen if step.recorded is not None]
            session_id = next((each.session_id for each in subjects if each.session_id is not None), None)
            return self._fields(call_id, session_id, "gone", None, seen) if seen else None
        seen = list(self._seen(call_id, stored.session_id))
        steps = [*seen, *self._from_store(stored, seen), *await self._pending(stored)]
        state = "waiting" if stored.call.status_expires_at_ms is None else "answered"
        expires_at_ms = stored.call.status_expires_at_ms or stored.call.expires_at_ms
        return self._fields(call_id, stored.session_id, state, expires_at_ms, steps)

    def _fields(
        self, call_id: str, session_id: str | None, state: str, expires_at_ms: int | None, steps: list[Step]
    ) -> CallLifeAnswer:
        if all(step.name != "asked" for step in steps):  # the call's id shows when it was asked
            steps = [Step("asked", made_at_ms(call_id)), *steps]
        return {
            "call": {"id": shortened(call_id), "handle": self.handles.of(call_id)},
            "session": named(session_id, self.handles),
            "state": state,
            "expires_at": rfc3339_or_none(expires_at_ms),
            "steps": [
                {
                    "step": step.name,
                    "at": rfc3339_or_none(step.at_ms),
                    "outcome": step.outcome or None,
                    "request": None if step.recorded is None else self.requests.fields(step.recorded),
                }
                for step in sorted(steps, key=lambda step: (step.name != "asked", step.at_ms or 0))
            ],
        }

    def _seen(self, call_id: str, session_id: str | None) -> Iterator[Step]:
        """The steps in the record: requests about the call, and of its session while it waited."""
        of_session: list[Step] = []
        for recorded in reversed(self.requests.newest_first()):
            subject, step = subject_of(recorded.exchange), _step(recorded)
            if step is None:
                continue
            if subject.call_id == call_id:
                if step.name == "asked":
                    of_session = []
                elif step.name == "answered":
                    yield from of_session
                    of_session, session_id = [], None
                yield step
            elif subject.call_id is None and subject.session_id == session_id is not None:
                of_session.append(step)
        yield from of_session

    def _from_store(self, stored: StoredCallLife, seen: Iterable[Step]) -> Iterator[Step]:
        known = {step.name for step in seen}
        status_expires_at_ms = stored.call.status_expires_at_ms
        if status_expires_at_ms is not None and "answered" not in known:
            yield Step("answered", status_expires_at_ms - self.status_ms)
        yield Step("expires", status_expires_at_ms or stored.call.expires_at_ms)

    async def _pending(self, stored: StoredCallLife) -> Sequence[Step]:
        """The notice to the wallet's webhook that is still to be delivered."""
        if stored.push_webhook is None:
            return ()
        notice = OutgoingMessage("", stored.push_webhook, b"", CALL_WEBHOOK, subject=stored.session_id)
        call_id = stored.call.call_id.encode()
        return [
            Step("webhook", each.next_attempt_at_ms, _waiting(each))
            for each in await self._pending_of(notice.queue)
            if call_id in each.body
        ]


def _step(recorded: Recorded) -> Step | None:
    """The step that a request was, if it was one."""
    exchange = recorded.exchange
    if exchange.who == "bridge":
        outcome = exchange.summary or f"the receiver answered {exchange.status}"
        return Step("webhook", recorded.at_ms, outcome, recorded)
    name = _STEP_OF_ROUTE.get(exchange.route.removeprefix(_DIALECT))
    if name is None or recorded.is_waiting or exchange.is_error or exchange.status == _NO_CONTENT:
        return None
    return Step(name, recorded.at_ms + round(exchange.milliseconds), "", recorded)


def _waiting(message: PendingMessage) -> str:
    if not message.attempts:
        return "waits for its first attempt"
    return f"attempt {message.attempts} failed: {message.last_error or 'no reason'}; it is tried again"


_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
Spell: TypeAlias = Callable[[Recorded], Any]  # makes the JSON of a request


def read_number(spelled: str) -> int | None:
    """The number of a request; None for nothing. Raises InvalidInputError."""
    if not spelled:
        return None
    if not _NUMBER.fullmatch(spelled):
        raise InvalidInputError(f"{spelled[:40]!r} is not the number of a request, such as 12.")
    return int(spelled)


def request_fields(recorded: Recorded, traffic: TrafficLog, handles: Handles) -> KeptRequestAnswer:
    """One request; with its contents where they are kept."""
    exchange = recorded.exchange
    subject = subject_of(exchange)
    fields: Fields = {
        **line_fields(recorded, traffic),
        "session": named(subject.session_id, handles),
        "call": named(subject.call_id, handles),
    }
    for name, contents in (("request", exchange.request), ("answer", exchange.answer)):
        if contents is not None:
            body = contents.body.decode(errors="replace")
            fields[name] = {"headers": dict(contents.headers), "body": body, "bytes": contents.body_bytes}
    return cast(KeptRequestAnswer, fields)


def line_fields(recorded: Recorded, traffic: TrafficLog) -> RequestLine:
    """One request without its contents, and without the session and the call that it is about."""
    exchange, is_waiting = recorded.exchange, recorded.is_waiting
    return {
        "number": recorded.number,
        "change": recorded.change,
        "at": rfc3339(recorded.at_ms),
        "who": exchange.who,
        "method": exchange.method,
        "path": exchange.path if traffic.keeps_contents else with_short_ids(exchange.path),
        "route": exchange.route,
        "status": None if is_waiting else exchange.status,
        "milliseconds": None if is_waiting else exchange.milliseconds,
        "waits": traffic.waited_seconds(recorded) if is_waiting else None,
        "waited": exchange.waited_seconds,
        "summary": exchange.summary,
        "approval": exchange.path if is_waiting and exchange.route == APPROVAL else None,
    }


def named(any_id: str | None, handles: Handles) -> NamedThingAnswer | None:
    """A session or a call: the beginning of its id, and its handle in the paths of the admin API."""
    return None if any_id is None else {"id": shortened(any_id), "handle": handles.of(any_id)}


def merged_life(lives: Pages) -> Fields:
    """The lifetime with the steps that any process has recorded. Raises CallNotFoundError if none has any."""
    if not lives:
        raise CallNotFoundError
    first = next(iter(lives.values()))
    recorded = [
        {**step, "request": {**step["request"], "process": process}}
        for process, life in lives.items()
        for step in life["steps"]
        if step["request"] is not None
    ]
    names = {step["step"] for step in recorded} & _KNOWN_WITHOUT_A_REQUEST
    others = [each for each in first["steps"] if each["request"] is None and each["step"] not in names]
    steps = _of_its_time(recorded + others)
    return {
        **first,
        "session": next((life["session"] for life in lives.values() if life["session"]), None),
        "steps": sorted(steps, key=lambda step: (step["step"] != "asked", step["at"] or "")),
    }


def _of_its_time(steps: Sequence[Fields]) -> list[Fields]:
    """Without requests of the session from before the call was asked, or from after it was answered."""
    asked = [milliseconds_of(step["at"]) for step in steps if step["step"] == "asked"]
    answered = [milliseconds_of(step["at"]) for step in steps if step["step"] == "answered"]

    def is_of_its_time(step: Fields) -> bool:
        if step["request"] is None or step["request"]["call"] is not None:
            return True
        moment_ms = milliseconds_of(step["at"])
        return not any(moment_ms < each - _CLOCKS_DIFFER_MS for each in asked) and not any(
            moment_ms > each + _CLOCKS_DIFFER_MS for each in answered
        )

    return [step for step in steps if is_of_its_time(step)]
