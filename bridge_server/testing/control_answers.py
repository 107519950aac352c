"""Answers of the control routes of `serve --test`, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The server's clock after a move: `swept` rows had expired, and `delivered` messages were due."""

    now: datetime
    frozen: bool
    swept: int = 0
    delivered: int = 0


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One attempt to deliver a message. `outcome` is `delivered`, `failed` or `gone`, with a `reason`.

    `headers` are a webhook's, with the signature. `payload` is the JSON that was sent.
    """

    id: str
    channel: str
    at: datetime
    outcome: str
    payload: Any
    reason: str | None = None
    topic: str | None = None
    account: str | None = None
    url: str | None = None
    token: str | None = None
    title: str | None = None
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that the server answered. `who` is the side that sent it, such as `dapp` or `wallet`.

    `milliseconds` is the time until the answer; `waited` is how many seconds a long poll was held.
    `request` and `answer` hold headers and bodies. A member that the server adds later is in `more`.
    """

    number: int
    at: datetime
    who: str
    method: str
    path: str
    route: str
    status: int
    milliseconds: float
    waited: float
    gist: str
    request: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests, oldest first, and the `last` number: the next reading goes on after it."""

    requests: list[RecordedRequest]
    last: int


def clock_reading(document: Mapping[str, Any]) -> ClockReading:
    """The reading in an answer of the clock's route."""
    return ClockReading(
        datetime.fromisoformat(document["now"]),
        document["frozen"],
        document.get("swept", 0),
        document.get("delivered", 0),
    )


def sent_message(document: Mapping[str, Any]) -> SentMessage:
    """One element of `sent`. A member that is not known is ignored."""
    known = {name: document[name] for name in SentMessage.__slots__ if name in document}
    return SentMessage(**{**known, "at": datetime.fromisoformat(document["at"])})


def traffic(document: Mapping[str, Any]) -> Traffic:
    """An answer of the traffic's route."""
    return Traffic([_recorded(each) for each in document["requests"]], document["last"])


def _recorded(document: Mapping[str, Any]) -> RecordedRequest:
    known = {name: document[name] for name in RecordedRequest.__slots__ if name in document}
    more = {name: value for name, value in document.items() if name not in known}
    return RecordedRequest(**{**known, "at": datetime.fromisoformat(document["at"]), "more": more})
