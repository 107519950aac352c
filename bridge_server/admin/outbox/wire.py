"""JSON of stored messages. Payloads, tokens, secrets and whole ids of sessions never appear."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
from pydantic import Field

from bridge_server.admin.neighbours import Reply, listed_processes
from bridge_server.admin.outbox.service import AttemptFilter, AttemptPage
from bridge_server.admin.shortened import shortened
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.notify.device_notices import DEVICE
from bridge_server.outbox.attempts import DeliveryAttempt
from bridge_server.outbox.errors import AttemptNotFoundError, MessageNotFoundError
from bridge_server.outbox.models import Purpose
from bridge_server.outbox.signature import SIGNATURE
from bridge_server.outbox.stored import (
    MessageFilter,
    MessageKind,
    MessagePage,
    MessagePlace,
    MessageState,
    StoredMessage,
    WholeMessage,
)
from bridge_server.outgoing.outcome import answered_status
from bridge_server.projects.webhook_events import PROJECT_EVENT
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check

SUCCESS = b'{"success":true}'

_PLACE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_NAMED = re.compile(r"([0-9]{1,18})-(.+)", re.ASCII | re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_SET = "(set)"


class DestinationShape(Shape):
    """The body of POST /admin/outbox/retry-dead and of drop-dead."""

    destination: Annotated[str, Field(min_length=1, max_length=4096)]


def read_destination(document: JsonObject) -> str:
    """Read the destination whose dead letters are meant."""
    return check(DestinationShape, document.values).destination


def read_filter(query: Mapping[str, str]) -> MessageFilter:
    """Read the query parameters `state`, `kind`, `purpose` and `destination`. Raises InvalidInputError."""
    state = query.get("state")
    if state is not None and state not in list(MessageState):
        raise InvalidInputError(f"The query parameter state takes {', '.join(MessageState)}.")
    return MessageFilter(
        None if state is None else MessageState(state),
        query.get("purpose"),
        query.get("destination"),
        _kind(query),
    )


def read_attempt_filter(query: Mapping[str, str]) -> AttemptFilter:
    """Read the query parameters `kind` and `destination`. Raises InvalidInputError."""
    return AttemptFilter(_kind(query), query.get("destination"))


def read_attempt_place(after: str) -> int | None:
    """Read the query parameter `after`. Raises InvalidInputError."""
    if after and not _NUMBER.fullmatch(after):
        raise InvalidInputError("The query parameter after takes the next of the page before.")
    return int(after) if after else None


def read_attempt(text: str) -> int:
    """The number that names an attempt. Raises AttemptNotFoundError."""
    if not _NUMBER.fullmatch(text):
        raise AttemptNotFoundError
    return int(text)


def read_place(after: str) -> MessagePlace | None:
    """Read the query parameter `after`. Raises InvalidInputError."""
    if not after:
        return None
    found = _PLACE.fullmatch(after)
    if found is None:
        raise InvalidInputError("The query parameter after takes the next of the page before.")
    return MessagePlace(int(found[1]), int(found[2] or 0))


def read_id(text: str) -> tuple[int, str]:
    """The row and the message id that an id names. Raises MessageNotFoundError."""
    found = _NAMED.fullmatch(text)
    if found is None:
        raise MessageNotFoundError
    return int(found[1]), found[2]


def page_fields(page: MessagePage, now_ms: int) -> dict[str, Any]:
    """A page of messages; `next` is null at the end."""
    rest = page.rest
    following = (
        None if rest is None else f"{rest.row_id}" + (f"-{rest.died_at_ms}" if rest.died_at_ms else "")
    )
    return {"messages": [message_fields(stored, now_ms) for stored in page.messages], "next": following}


def message_fields(stored: StoredMessage, now_ms: int) -> dict[str, Any]:
    """A message as the list has it."""
    return {
        "id": f"{stored.row_id}-{stored.message_id}",
        "state": stored.state(now_ms),
        "purpose": stored.purpose,
        "destination": stored.queue.destination,
        "subject": _subject(stored.purpose, stored.subject),
        "attempts": stored.attempts,
        "created_at": rfc3339(stored.created_at_ms),
        "next_attempt_at": rfc3339_or_none(stored.next_attempt_at_ms),
        "died_at": rfc3339_or_none(stored.died_at_ms),
        "error": stored.last_error,
        "status": answered_status(stored.last_error or ""),
    }


def attempted_fields(
    whole: WholeMessage, headers: Mapping[str, str], attempts: Sequence[DeliveryAttempt], now_ms: int
) -> dict[str, Any]:
    """A message with its last attempts, which only a running server has."""
    return {
        **whole_fields(whole, headers, now_ms),
        "last_attempts": [attempt_fields(each) for each in attempts],
    }


def merged_message(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """A message with the attempts of all processes, newest first."""
    found = [(own_number, own), *((each.number, each.fields) for each in replies if each.fields is not None)]
    attempts = [{**each, "process": number} for number, fields in found for each in fields["last_attempts"]]
    return {
        **own,
        "last_attempts": sorted(attempts, key=lambda each: (each["at"], each["number"]), reverse=True),
        "processes": listed_processes(own_number, replies),
    }


def whole_fields(whole: WholeMessage, headers: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    """A message with its headers, its size and, where it is no payload, its body."""
    return {
        **message_fields(whole.stored, now_ms),
        "message_id": whole.message.message_id,
        "headers": {str(name): _SET if name == SIGNATURE else value for name, value in headers.items()},
        "body_bytes": len(whole.message.body),
        "body": _body(whole),
    }


def attempt_page_fields(page: AttemptPage, outcomes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """A page of attempts, and how many had each outcome; `next` is null at the end."""
    return {
        "attempts": [attempt_fields(each) for each in page.attempts],
        "outcomes": {channel: dict(counts) for channel, counts in outcomes.items()},
        "next": None if page.rest is None else str(page.rest),
    }


def attempt_fields(attempt: DeliveryAttempt) -> dict[str, Any]:
    """An attempt as the list has it."""
    outcome = attempt.outcome
    return {
        "number": attempt.number,
        "at": rfc3339(attempt.at_ms),
        "message_id": attempt.message_id,
        "purpose": attempt.purpose,
        "channel": attempt.channel,
        "destination": attempt.destination,
        "subject": _subject(attempt.purpose, attempt.subject),
        "outcome": outcome.verdict.name.lower(),
        "status": outcome.status,
        "milliseconds": round(attempt.milliseconds, 1),
        "failure": outcome.reason or None,
    }


def whole_attempt_fields(attempt: DeliveryAttempt) -> dict[str, Any]:
    """An attempt with its request, in test mode; outside of it `body` is null."""
    return {
        **attempt_fields(attempt),
        "body": None if attempt.body is None else orjson.loads(attempt.body),
    }


def count_fields(count: int) -> dict[str, Any]:
    """How many messages were changed."""
    return {"messages": count}


def _kind(query: Mapping[str, str]) -> MessageKind | None:
    kind = query.get("kind")
    if kind is not None and kind not in list(MessageKind):
        raise InvalidInputError(f"The query parameter kind takes {', '.join(MessageKind)}.")
    return None if kind is None else MessageKind(kind)


def _subject(purpose: Purpose, subject: str | None) -> str | None:
    """A project is named whole; sessions and topics are capabilities."""
    if subject is None or purpose in (PROJECT_EVENT, DEVICE):
        return subject
    return shortened(subject)


def _body(whole: WholeMessage) -> Any:
    """The body of a project event. All others have ids of sessions, tokens of devices or private texts."""
    return orjson.loads(whole.message.body) if whole.stored.purpose == PROJECT_EVENT else None
