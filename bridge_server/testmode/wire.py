"""JSON of the control routes, but for faults, to models and back (docs/test-mode.md)."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.rfc3339 import milliseconds_of
from bridge_server.testmode.models import ClockMove, ClockState, Sent
from bridge_server.testmode.sent import Wanted
from bridge_server.web.exchanges import Contents, Recorded

CHANNELS = ("webhook", "webhook-push", "fcm", "apns", "webpush")
"""The ways out of the server."""

_MOST_SECONDS = 10 * 366 * 86_400
_LONGEST_WAIT_SECONDS = 300.0
_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


def read_clock(document: Mapping[str, Any]) -> ClockMove:
    """`{"advance": seconds}`, or `{"now": date and time, "frozen": bool}`. Raises InvalidInputError."""
    advance, now, frozen = document.get("advance"), document.get("now"), document.get("frozen", False)
    if (advance is None) == (now is None):
        raise _fault_at("#", "needs either «advance», in seconds, or «now», a date and time")
    if not isinstance(frozen, bool):
        raise _fault_at("#/frozen", "must be true or false")
    if now is not None:
        return ClockMove(now_us=_moment_ms(now) * 1_000, frozen=frozen)
    if "frozen" in document:
        raise _fault_at("#/frozen", "goes with «now»: a clock that is advanced goes on as it did")
    return ClockMove(advance_us=_duration_us(advance))


def read_wanted(query: Mapping[str, str]) -> Wanted:
    """The messages that a query names. Raises InvalidInputError."""
    channel = query.get("channel")
    if channel is not None and channel not in CHANNELS:
        raise InvalidInputError(f"There is no channel {channel!r}, only {', '.join(CHANNELS)}.")
    return Wanted(channel, query.get("topic"), query.get("account"))


def read_wait(query: Mapping[str, str]) -> float:
    """The seconds of `wait`, 300 at most. Raises InvalidInputError."""
    text = query.get("wait", "0")
    if not _SECONDS.fullmatch(text):
        raise InvalidInputError("The query parameter wait takes seconds, such as ?wait=5.")
    return min(float(text), _LONGEST_WAIT_SECONDS)


def read_after(query: Mapping[str, str]) -> int:
    """The number of `after`. Raises InvalidInputError."""
    text = query.get("after", "0")
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError("The query parameter after takes the number of a request, such as ?after=12.")
    return int(text)


def write_reset(reading: ClockState) -> bytes:
    """The clock of a server that was reset."""
    return orjson.dumps({"now": rfc3339(reading.now_ms)})


def write_clock(reading: ClockState) -> bytes:
    """The clock after a move, and how much became due by it."""
    return orjson.dumps(
        {
            "now": rfc3339(reading.now_ms),
            "frozen": reading.frozen,
            "swept": reading.swept,
            "delivered": reading.delivered,
        }
    )


def write_deleted(count: int) -> bytes:
    """The number of messages that were forgotten."""
    return orjson.dumps({"deleted": count})


def write_sent(messages: Sequence[Sent]) -> bytes:
    """Messages that left the server, oldest first."""
    return orjson.dumps({"sent": [_sent_fields(each) for each in messages]})


def write_traffic(requests: Sequence[Recorded], last_number: int) -> bytes:
    """Requests, oldest first, and the number of the newest."""
    return orjson.dumps({"requests": [_request_fields(each) for each in requests], "last": last_number})


def _moment_ms(text: Any) -> int:
    if not isinstance(text, str):
        raise _fault_at("#/now", "must be a date and time as in RFC 3339, such as 2027-01-15T08:00:00Z")
    try:
        return milliseconds_of(text)
    except ValueError as error:
        raise _fault_at("#/now", str(error)) from error


def _duration_us(seconds: Any) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise _fault_at("#/advance", "must be a number of seconds")
    if not 0 <= seconds <= _MOST_SECONDS:
        raise _fault_at("#/advance", "must be from 0 to 316224000 seconds (ten years): set «now» to go back")
    return round(seconds * 1_000_000)


def _fault_at(pointer: str, detail: str) -> InvalidInputError:
    return InvalidInputError("The clock cannot be set.", [Fault(pointer, detail)])


def _sent_fields(sent: Sent) -> dict[str, Any]:
    fields = {
        "id": sent.message_id,
        "channel": sent.channel,
        "at": rfc3339(sent.at_ms),
        "outcome": sent.outcome,
        "reason": sent.reason or None,
        "topic": sent.topic,
        "account": sent.account,
        "url": sent.url,
        "token": sent.token,
        "title": sent.text("title"),
        "body": sent.text("body"),
        "headers": dict(sent.headers) or None,
    }
    return {**{name: value for name, value in fields.items() if value is not None}, "payload": sent.payload}


def _request_fields(recorded: Recorded) -> dict[str, Any]:
    exchange = recorded.exchange
    fields = {
        "number": recorded.change,
        "at": rfc3339(recorded.at_ms),
        "who": exchange.who,
        "method": exchange.method,
        "path": exchange.path,
        "route": exchange.route,
        "status": exchange.status,
        "milliseconds": exchange.milliseconds,
        "waited": exchange.waited_seconds,
        "gist": exchange.gist,
    }
    messages = {"request": exchange.request, "answer": exchange.answer}
    return fields | {name: _contents_fields(each) for name, each in messages.items() if each is not None}


def _contents_fields(contents: Contents) -> dict[str, Any]:
    body = contents.body.decode(errors="replace")
    return {"headers": dict(contents.headers), "body": body, "bytes": contents.body_bytes}
