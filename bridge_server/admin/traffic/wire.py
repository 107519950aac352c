"""JSON of the record of requests."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bridge_server.admin.handles import Handles, shortened
from bridge_server.admin.traffic.lifetime import CallLife, Step
from bridge_server.admin.traffic.subjects import subject_of
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.web.exchanges import Contents, Recorded, with_short_ids
from bridge_server.web.traffic import TrafficLog

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", re.ASCII)
_LONGEST_WAIT_SECONDS = 25.0

Spell: TypeAlias = Callable[[Recorded], dict[str, Any]]
"""Makes the JSON of a request."""


@dataclass(frozen=True, slots=True)
class Following:
    """The changes that a client waits for: those after `since`, which is not read yet."""

    since: str
    wait_seconds: float


def read_number(text: str) -> int | None:
    """The number of a request; None for nothing. Raises InvalidInputError."""
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"{text[:40]!r} is not the number of a request, such as 12.")
    return int(text)


def read_following(query: Mapping[str, str]) -> Following | None:
    """`since` and `wait` (25 s at most); None without `since`. Raises InvalidInputError."""
    since, wait = query.get("since", ""), query.get("wait", "0")
    if not _SECONDS.fullmatch(wait):
        raise InvalidInputError("The query parameter wait takes seconds, such as ?since=12&wait=5.")
    if not since:
        if "wait" in query:
            raise InvalidInputError(
                "The query parameter wait goes with since, the last change that is known."
            )
        return None
    return Following(since, min(float(wait), _LONGEST_WAIT_SECONDS))


def page_fields(found: Sequence[Recorded], limit: int, newest: int, spell: Spell) -> dict[str, Any]:
    """A page of at most `limit` requests. `found` has one more if another page follows."""
    page = found[:limit]
    return {
        "requests": [spell(each) for each in page],
        "last": newest,
        "next": str(page[-1].number) if len(found) > limit else None,
    }


def news_fields(found: Sequence[Recorded], limit: int, newest: int, spell: Spell) -> dict[str, Any]:
    """The first `limit` of these changes, and the last change that a client knows with them."""
    shown = found[:limit]
    return {
        "requests": [spell(each) for each in shown],
        "last": shown[-1].change if len(found) > limit else newest,
    }


def request_fields(recorded: Recorded, traffic: TrafficLog, handles: Handles) -> dict[str, Any]:
    """One request; with its contents where they are kept."""
    exchange = recorded.exchange
    messages = {"request": exchange.request, "answer": exchange.answer}
    contents = {name: _contents_fields(each) for name, each in messages.items() if each is not None}
    subject = subject_of(exchange)
    about = {"session": named(subject.session_id, handles), "call": named(subject.call_id, handles)}
    return line_fields(recorded, traffic) | about | contents


def line_fields(recorded: Recorded, traffic: TrafficLog) -> dict[str, Any]:
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
        "gist": exchange.gist,
    }


def named(any_id: str | None, handles: Handles) -> dict[str, Any] | None:
    """A session or a call: the beginning of its id, and its handle in the paths of the admin API."""
    return None if any_id is None else {"id": shortened(any_id), "handle": handles.of(any_id)}


def life_fields(life: CallLife, traffic: TrafficLog | None, handles: Handles) -> dict[str, Any]:
    """The lifetime of a call, step by step."""
    return {
        "call": named(life.call_id, handles),
        "session": named(life.session_id, handles),
        "state": life.state,
        "expires_at": rfc3339_or_none(life.expires_at_ms),
        "steps": [step_fields(step, traffic, handles) for step in life.steps],
    }


def step_fields(step: Step, traffic: TrafficLog | None, handles: Handles) -> dict[str, Any]:
    """One step, with the request that it was, if that is still kept."""
    request = None if step.recorded is None or traffic is None else step.recorded
    return {
        "step": step.name,
        "at": rfc3339_or_none(step.at_ms),
        "outcome": step.outcome or None,
        "request": None if request is None or traffic is None else request_fields(request, traffic, handles),
    }


def _contents_fields(contents: Contents) -> dict[str, Any]:
    body = contents.body.decode(errors="replace")
    return {"headers": dict(contents.headers), "body": body, "bytes": contents.body_bytes}
