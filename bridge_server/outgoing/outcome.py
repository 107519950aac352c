"""What comes of an outgoing request."""

from dataclasses import dataclass
from enum import Enum, auto


class Verdict(Enum):
    """What an attempt means for its message."""

    DELIVERED = auto()
    FAILED = auto()
    """Worth another attempt."""
    GONE = auto()
    """The receiver answered 410: it wants nothing more at this URL."""
    REFUSED = auto()
    """This server will not connect there, now or later; or what it has to say will never be taken."""
    BLOCKED = auto()
    """The channel itself does not work, because this server's credentials are refused."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attempt.

    `reason` is a short text for people, without the URL, empty after a success. `status` is the receiver's
    answer, if it gave one. `retry_after_seconds` is how long it asked to be left alone: in the name of all
    that waits in the message's lane if it is `about_lane`, else only of this message.
    """

    verdict: Verdict
    reason: str = ""
    status: int | None = None
    retry_after_seconds: float | None = None
    about_lane: bool = False
