"""The outcome of an outgoing request."""

import re
from dataclasses import dataclass
from enum import Enum, auto

_ANSWERED = re.compile(r"\banswered ([1-5][0-9]{2})\b", re.ASCII)


class Verdict(Enum):
    """The meaning of an attempt for its message."""

    DELIVERED = auto()
    FAILED = auto()
    """A retry may succeed."""
    GONE = auto()
    """The receiver is gone: it answered 410, or the provider calls its token dead."""
    REFUSED = auto()
    """No retry can succeed: the guard refuses the address, or the receiver will never accept the message."""
    BLOCKED = auto()
    """The service refuses this server's credentials, so no message of the channel can be delivered."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one attempt.

    `reason` is a short text for people, without the URL, and empty after a success. `status` is the status of
    the answer, if there was one. `retry_after_seconds` is the receiver's Retry-After; with `about_lane` it
    pauses the whole lane, otherwise only this message.
    """

    verdict: Verdict
    reason: str = ""
    status: int | None = None
    retry_after_seconds: float | None = None
    about_lane: bool = False


def answered_status(reason: str) -> int | None:
    """The status in the reason of an outcome, which is stored; None when there was no answer."""
    found = _ANSWERED.search(reason)
    return int(found[1]) if found else None
