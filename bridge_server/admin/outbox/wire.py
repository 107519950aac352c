"""JSON of stored messages. Payloads, tokens, secrets and whole ids of sessions never appear."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from pydantic import Field

from bridge_server.admin.shortened import shortened
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.notify.device_notices import DEVICE
from bridge_server.outbox.errors import MessageNotFoundError
from bridge_server.outbox.signature import SIGNATURE
from bridge_server.outbox.stored import (
    MessageFilter,
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
_SET = "(set)"


class DestinationShape(Shape):
    """The body of POST /admin/outbox/retry-dead and of drop-dead."""

    destination: Annotated[str, Field(min_length=1, max_length=4096)]


def read_destination(document: JsonObject) -> str:
    """Read the destination whose dead letters are meant."""
    return check(DestinationShape, document.values).destination


def read_filter(query: Mapping[str, str]) -> MessageFilter:
    """Read the query parameters `state`, `purpose` and `destination`. Raises InvalidInputError."""
    state = query.get("state")
    if state is not None and state not in list(MessageState):
        raise InvalidInputError(f"The query parameter state takes {', '.join(MessageState)}.")
    return MessageFilter(
        None if state is None else MessageState(state), query.get("purpose"), query.get("destination")
    )


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
        "subject": _subject(stored),
        "attempts": stored.attempts,
        "created_at": rfc3339(stored.created_at_ms),
        "next_attempt_at": _moment(stored.next_attempt_at_ms),
        "died_at": _moment(stored.died_at_ms),
        "error": stored.last_error,
        "status": answered_status(stored.last_error or ""),
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


def count_fields(count: int) -> dict[str, Any]:
    """How many messages were changed."""
    return {"messages": count}


def write(fields: dict[str, Any]) -> bytes:
    """The fields as JSON."""
    return orjson.dumps(fields)


def _subject(stored: StoredMessage) -> str | None:
    """A project is named whole; sessions and topics are capabilities."""
    if stored.subject is None or stored.purpose in (PROJECT_EVENT, DEVICE):
        return stored.subject
    return shortened(stored.subject)


def _body(whole: WholeMessage) -> Any:
    """The body of a project event. All others have ids of sessions, tokens of devices or private texts."""
    return orjson.loads(whole.message.body) if whole.stored.purpose == PROJECT_EVENT else None


def _moment(moment_ms: int | None) -> str | None:
    return None if moment_ms is None else rfc3339(moment_ms)
