"""The control API's JSON: bodies to values, and the wallet's state to JSON."""

from collections.abc import Sequence
from typing import Annotated, Any

from aiohttp import web
from pydantic import Field

from bridge_server.client import Generation
from bridge_server.headless.actions import REJECTION, USER_REJECTED, RuleError
from bridge_server.headless.calls import CallState, Failure, HeadlessCall, Outcome, Result
from bridge_server.headless.feed import (
    CallCame,
    CallSettled,
    Happening,
    Paired,
    PairingFailed,
    ProviderEvent,
    SessionChanged,
    SessionDecided,
    SessionEnded,
)
from bridge_server.headless.rules import Rule, read_rule
from bridge_server.headless.sessions import HeadlessSession
from bridge_server.headless.texts import explanation_of
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.web.json_body import JsonObject, json_object, parse_value, require_json
from bridge_server.web.shapes import AnyShape, Shape, check

_MOST_VALUES = 65_536
_MOST_RULES = 1_000


class PairBody(Shape):
    """A pairing URI; the relay, which generation 2.x does not name; a generation if two are possible."""

    uri: Annotated[str, Field(min_length=1, max_length=4_096)]
    relay_url: str | None = None
    generation: Generation | None = None


class ChangeBody(Shape):
    """The new accounts of a session, the new chain, or both."""

    accounts: Annotated[list[int | str], Field(min_length=1)] | None = None
    chain_id: Annotated[int, Field(ge=1, le=2**53)] | None = None


class RejectBody(Shape):
    """The error that answers a call."""

    code: int = USER_REJECTED
    message: str = REJECTION


class AnswerBody(Shape):
    """The result that answers a call."""

    result: Any


class RequestBody(Shape):
    """A call of a web page's provider."""

    method: Annotated[str, Field(min_length=1, max_length=100)]
    params: list[Any] | dict[str, Any] | None = None
    origin: str | None = None
    name: str | None = None


async def read_body(request: web.Request, shape: type[AnyShape]) -> AnyShape:
    """The body in this shape; an empty body is an empty object. Raises InvalidInputError."""
    body = await json_object(request) if await request.read() else JsonObject({}, None)
    return check(shape, body.values)


async def read_rules(request: web.Request) -> list[Rule]:
    """The rules of a body, an array of their texts. Raises InvalidInputError that names every fault."""
    require_json(request)
    texts = parse_value(await request.read(), "The body", _MOST_VALUES)
    if not isinstance(texts, list) or len(texts) > _MOST_RULES:
        raise InvalidInputError(f"The body must be an array of at most {_MOST_RULES} rules.")
    rules, faults = [], []
    for place, text in enumerate(texts):
        try:
            rules.append(read_rule(text if isinstance(text, str) else repr(text)))
        except RuleError as error:
            faults.append(Fault(f"#/{place}", f"{error}."))
    if faults:
        raise InvalidInputError(f"{faults[0].detail}", faults)
    return rules


def read_state(request: web.Request) -> CallState | None:
    """The state that a list of calls is limited to. Raises InvalidInputError."""
    text = request.query.get("state")
    if text is None:
        return None
    try:
        return CallState(text)
    except ValueError:
        known = ", ".join(CallState)
        raise InvalidInputError(f"The query parameter state must be one of {known}.") from None


def session_fields(session: HeadlessSession) -> dict[str, Any]:
    """A session."""
    return {
        "id": session.id,
        "generation": session.generation,
        "state": session.state,
        "dapp": {"name": session.dapp.name, "url": session.dapp.url},
        "accounts": list(session.accounts),
        "chain_id": session.chain_id,
        **({"ended_by": session.ended_by, "reason": session.reason} if session.is_over else {}),
    }


def call_fields(call: HeadlessCall) -> dict[str, Any]:
    """A call. `explanation` is what a person would be shown."""
    fields: dict[str, Any] = {
        "id": call.id,
        "session": call.session.id,
        "origin": call.origin,
        "method": call.method,
        "params": call.params,
        "chain_id": call.chain_id,
        "text": call.text,
        "explanation": [list(line) for line in explanation_of(call.method, call.params, call.chain_id)],
        "state": call.state,
        "rule": call.because,
        "milliseconds": call.milliseconds,
    }
    if call.state is CallState.ANSWERED:
        fields["result"] = call.result
    if call.error is not None:
        fields["error"] = error_fields(call.error)
    return fields


def error_fields(failure: Failure) -> dict[str, Any]:
    """An error as JSON-RPC has it."""
    error = {"code": failure.code, "message": failure.message}
    return error if failure.data is None else {**error, "data": failure.data}


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """The outcome of a web page's call."""
    return {"result": outcome.value} if isinstance(outcome, Result) else {"error": error_fields(outcome)}


def rule_texts(rules: Sequence[Rule]) -> list[str]:
    """The rules as they were spelled. A rule of Python is spelled by its method."""
    return [rule.text or rule.method for rule in rules]


def event_fields(happening: Happening) -> dict[str, Any]:
    """An event: its name and its subject."""
    match happening:
        case Paired(session):
            return {"event": "paired", "session": session_fields(session)}
        case SessionDecided(session):
            return {"event": "session", "session": session_fields(session)}
        case SessionChanged(session):
            return {"event": "changed", "session": session_fields(session)}
        case SessionEnded(session):
            return {"event": "ended", "session": session_fields(session)}
        case CallCame(call):
            return {"event": "call", "call": call_fields(call)}
        case CallSettled(call):
            return {"event": "answer", "call": call_fields(call)}
        case PairingFailed(reason):
            return {"event": "failed", "reason": reason}
        case ProviderEvent(name, value, session):
            return {"event": name, "value": value, "origin": session.origin, "session": session.id}
