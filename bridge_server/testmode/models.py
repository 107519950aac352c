"""Faults that a test orders, and messages that left the server, as the rules see them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Where(StrEnum):
    """The place that a fault strikes."""

    REQUEST = "request"
    WEBHOOK = "webhook"
    FCM = "fcm"
    APNS = "apns"
    WEBPUSH = "webpush"
    NODE = "node"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule: which attempts fail, and how.

    The first `after` attempts pass, the following `times` fail (None: all of them). `route` is the name of a
    route, for requests; None stands for every route. `status` and `retry_after_seconds` are the answer's;
    `answer` is the failure in a provider's own words, or `full` or `locked` for the disk. With `drop` the
    connection is closed without an answer.
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


@dataclass(slots=True)
class CountedFault:
    """A rule with the attempts that it applied to, and how many of them it made fail."""

    rule: Fault
    attempts: int = 0
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that left the server. `outcome` is a verdict in lower case, such as `delivered`."""

    number: int
    message_id: str
    channel: str
    at_ms: int
    outcome: str
    reason: str
    url: str | None
    token: str | None
    headers: Mapping[str, str]
    payload: Any

    @property
    def topic(self) -> str | None:
        """The topic that the message is about."""
        return self._member("topic") or self._member("sessionId")

    @property
    def account(self) -> str | None:
        """The account that the message is for."""
        return self._member("account")

    def _member(self, name: str) -> str | None:
        value = self.payload.get(name) if isinstance(self.payload, dict) else None
        return value if isinstance(value, str) else None
