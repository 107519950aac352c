"""The lifetime of a call across requests: asked, told, fetched, answered, status read, expires.

The database knows that the call is there, and whether it has a status; the record of requests knows the rest,
as far as it goes back.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bridge_server.admin.traffic.subjects import subject_of
from bridge_server.outbox.models import OutgoingMessage, Queue
from bridge_server.outbox.pending import PendingMessage
from bridge_server.relay.errors import CallNotFoundError
from bridge_server.relay.models import CALL_WEBHOOK
from bridge_server.relay.session_list import SessionList, StoredCallLife, made_at_ms
from bridge_server.web.exchanges import Recorded
from bridge_server.web.traffic import TrafficLog

PendingOf: TypeAlias = Callable[[Queue], Awaitable[Sequence[PendingMessage]]]

_DIALECT = "v0.7-"
_STEP_OF_ROUTE = {
    "request-call": "asked",
    "call": "fetched",
    "calls": "fetched",
    "answer-call": "answered",
    "call-status": "status read",
}
_NO_CONTENT = 204


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a call. `at_ms` is None for a step that is still to come at no known time."""

    name: str
    at_ms: int | None
    outcome: str = ""
    recorded: Recorded | None = None


@dataclass(frozen=True, slots=True)
class CallLife:
    """A call and its steps. `state` is waiting, answered, or gone: expired, or ended with its session."""

    call_id: str
    session_id: str | None
    state: str
    expires_at_ms: int | None
    steps: Sequence[Step]


class CallLives:
    """Puts the lifetimes of calls together. A status can be read for `status_ms`."""

    def __init__(
        self, sessions: SessionList, traffic: TrafficLog | None, pending_of: PendingOf, status_ms: int
    ) -> None:
        self._sessions = sessions
        self._traffic = traffic
        self._pending_of = pending_of
        self._status_ms = status_ms

    async def of(self, call_id: str) -> CallLife:
        """The lifetime of this call. Raises CallNotFoundError for a call of which nothing is known."""
        stored = await self._stored(call_id)
        seen = list(self._seen(call_id, None if stored is None else stored.session_id))
        if stored is None:
            if not seen:
                raise CallNotFoundError
            return CallLife(call_id, _session_of(seen), "gone", None, _with_beginning(call_id, seen))
        steps = [*seen, *self._from_store(stored, seen), *await self._owed(stored)]
        is_answered = stored.call.status_expires_at_ms is not None
        return CallLife(
            call_id,
            stored.session_id,
            "answered" if is_answered else "waiting",
            stored.call.status_expires_at_ms or stored.call.expires_at_ms,
            _with_beginning(call_id, steps),
        )

    async def _stored(self, call_id: str) -> StoredCallLife | None:
        try:
            return await self._sessions.call(call_id)
        except CallNotFoundError:
            return None

    def _seen(self, call_id: str, session_id: str | None) -> Iterator[Step]:
        """The steps in the record, and the reads of all calls and the notices while this one was pending."""
        of_session: list[Step] = []
        for recorded in [] if self._traffic is None else reversed(self._traffic.before(None)):
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
            yield Step("answered", status_expires_at_ms - self._status_ms)
        yield Step("expires", status_expires_at_ms or stored.call.expires_at_ms)

    async def _owed(self, stored: StoredCallLife) -> Sequence[Step]:
        """The notice to the wallet's webhook that is still to be delivered."""
        if stored.push_webhook is None:
            return ()
        notice = OutgoingMessage("", stored.push_webhook, b"", CALL_WEBHOOK, subject=stored.session_id)
        call_id = stored.call.call_id.encode()
        return [
            Step("told", each.next_attempt_at_ms, _owing(each))
            for each in await self._pending_of(notice.queue)
            if call_id in each.body
        ]


def _step(recorded: Recorded) -> Step | None:
    """The step that a request was, if it was one."""
    exchange = recorded.exchange
    if exchange.who == "bridge":
        outcome = exchange.gist or f"the receiver answered {exchange.status}"
        return Step("told", recorded.at_ms, outcome, recorded)
    name = _STEP_OF_ROUTE.get(exchange.route.removeprefix(_DIALECT))
    if name is None or recorded.is_waiting or exchange.is_error or exchange.status == _NO_CONTENT:
        return None
    return Step(name, recorded.at_ms + round(exchange.milliseconds), "", recorded)


def _owing(message: PendingMessage) -> str:
    if not message.attempts:
        return "waits for its first attempt"
    return f"attempt {message.attempts} failed: {message.last_error or 'no reason'}; it is tried again"


def _with_beginning(call_id: str, steps: Sequence[Step]) -> Sequence[Step]:
    """The steps in the order of time, and first the step that the call's id shows."""
    if all(step.name != "asked" for step in steps):
        steps = [Step("asked", made_at_ms(call_id)), *steps]
    return sorted(steps, key=lambda step: (step.name != "asked", step.at_ms or 0))


def _session_of(steps: Iterable[Step]) -> str | None:
    subjects = (subject_of(step.recorded.exchange) for step in steps if step.recorded is not None)
    return next((each.session_id for each in subjects if each.session_id is not None), None)
