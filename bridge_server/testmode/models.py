"""Faults that a test orders, and messages that left the server, as the rules see them."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple

from bridge_server.kernel.values import dataclass

DELIVERED = "delivered"


class Where(StrEnum):
    """The place that a fault strikes."""

    REQUEST = "request"
    WEBHOOK = "webhook"
    FCM = "fcm"
    APNS = "apns"
    WEBPUSH = "webpush"
    NODE = "node"
    DISK = "disk"


class FaultRule(NamedTuple):
    """A rule: which attempts fail, and how. The first `after` attempts pass, the following `times` fail
    (None: all of them). `route` is the name of a route, or of a JSON-RPC method at the node; None stands for
    every one. `status` and `retry_after_seconds` are the answer's; `answer` is the failure in a provider's
    own words, or `full` or `locked` for the disk. With `drop` the connection is closed without an answer.
    """

    where: Where
    route: str | None = None
    status: int | None = None
    retry_after_seconds: int | None = None
    answer: str | None = None
    delay_ms: int = 0
    drop: bool = False
    after: int = 0
    times: int | None = None


class ClockMove(NamedTuple):
    """A move of the clock: to `now_us` since the Unix epoch, or by `advance_us`."""

    advance_us: int = 0
    now_us: int | None = None
    frozen: bool = False


class ClockState(NamedTuple):
    """The server's clock: rows `swept` and messages `delivered` since the move that it follows."""

    now_ms: int
    frozen: bool
    swept: int = 0
    delivered: int = 0


@dataclass(slots=True)
class CountedFault:
    """A rule with a number of its own, the attempts that it applied to, and how many of them it made fail."""

    number: int
    rule: FaultRule
    attempts: int = 0
    hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An attempt to deliver `notice`, of which the receiver or the provider gets `headers` and `payload`."""

    message_id: str
    channel: str
    at_ms: int
    outcome: str
    reason: str
    notice: Mapping[str, Any]
    payload: Any
    url: str | None = None
    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_delivered(self) -> bool:
        """Whether its receiver took it."""
        return self.outcome == DELIVERED

    def text(self, *names: str) -> str | None:
        """The first of these members of the notice that is a text."""
        found = (self.notice.get(name) for name in names)
        return next((value for value in found if isinstance(value, str)), None)

    @property
    def topic(self) -> str | None:
        """The topic or session that the message is about."""
        return self.text("topic", "sessionId")

    @property
    def account(self) -> str | None:
        """The account that the message is for."""
        return self.text("account")
