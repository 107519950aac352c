"""Sessions, calls and statuses as the rules see them. Times are milliseconds since the Unix epoch."""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Literal, NamedTuple, NewType, Self

from bridge_server.kernel.errors import LimitError, NotFoundError
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.models import Purpose

SessionId = NewType("SessionId", str)
CallId = NewType("CallId", str)
Payload = NewType("Payload", bytes)
"""An `encryptionPayload`: the JSON text that its sender wrote, which the relay never parses."""

CALL_WEBHOOK = Purpose("call-webhook")
"""The purpose of a notice to the webhook among a session's push details: its subject is the session."""


@dataclass(frozen=True, slots=True)
class PushDetails:
    """The webhook and the token that the wallet registered for new calls."""

    type: str
    token: str
    webhook: str

    @property
    def size_bytes(self) -> int:
        """The number of bytes that storing it takes."""
        return sum(len(text.encode()) for text in (self.type, self.token, self.webhook))


class Keep(Enum):
    """The update has no push details: the stored details stay as they are."""

    KEEP = "keep"


class OpenedSession(NamedTuple):
    """A session that has just been opened."""

    session_id: SessionId
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """The wallet's update: a payload that replaces the last one, and a change of its push details."""

    payload: Payload
    push: PushDetails | Literal[Keep.KEEP] | None

    @property
    def size_bytes(self) -> int:
        """The number of bytes that storing it takes."""
        return len(self.payload) + (self.push.size_bytes if isinstance(self.push, PushDetails) else 0)

    def with_webhook(self, judged: Callable[[str], str]) -> Self:
        """The update with another spelling of its webhook, if it has one."""
        if not isinstance(self.push, PushDetails):
            return self
        return replace(self, push=replace(self.push, webhook=judged(self.push.webhook)))


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call request from a dapp."""

    payload: Payload
    dapp_name: str


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call on its way into the store."""

    call_id: CallId
    session_id: SessionId
    payload: Payload
    expires_at_ms: int
    session_expires_at_ms: int
    """The session's new expiry, which is written only if the old one is before `prolonged_if_before_ms`."""
    prolonged_if_before_ms: int


class CallAudience(NamedTuple):
    """The receivers of a new call's notices: the wallet's push webhook, and the topic's webhooks."""

    push: PushDetails | None
    webhooks: tuple[str, ...]


@dataclass(slots=True)
class Slot:
    """A thing that may have no payload yet. Not frozen: every first read makes one, in half the time."""

    payload: Payload | None
    expires_at_ms: int


@dataclass(slots=True)
class StatusSlot(Slot):
    """The status of a call, and the session that it ends with."""

    session_id: SessionId


class CallRequest(NamedTuple):
    """A call request as the wallet reads it."""

    call_id: CallId
    payload: Payload
    expires_at_ms: int


class PendingCalls(NamedTuple):
    """A session's calls without a status, oldest first."""

    calls: tuple[CallRequest, ...]
    session_expires_at_ms: int


class SweptSlice(NamedTuple):
    """A slice of a table: how many rows it lost, and the last number read; None: there are no more."""

    deleted: int
    last: int | None


class Lifetimes(NamedTuple):
    """Lifetimes of sessions, calls, statuses and subscriptions, in milliseconds."""

    session_ms: int
    call_ms: int
    status_ms: int
    subscription_ms: int


@dataclass(slots=True)
class Caps:
    """Limits per session and per topic. Rewritten in place when the settings are read again."""

    pending_calls: int
    topic_webhooks: int


class SessionNotFoundError(NotFoundError, code="session-not-found", title="Session not found"):
    """The session id names nothing, or nothing any more."""

    detail = "No such session, or it has expired or was ended. Open one with POST /session/new."


class CallNotFoundError(NotFoundError, code="call-not-found", title="Call not found"):
    """The call id names nothing, or nothing any more."""

    detail = "No such call, or it has expired or its session was ended."


class TooManyPendingCallsError(LimitError, code="too-many-pending-calls", title="Too many pending calls"):
    """The wallet has not answered the calls that are there."""

    def __init__(self, limit: int, retry_after_seconds: int) -> None:
        super().__init__(
            f"The session has {limit} calls without a status, and may have no more. Wait for the wallet.",
            retry_after_seconds,
        )
