"""Notifications and what becomes of them, as the rules see them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.models import TypeId


@dataclass(frozen=True, slots=True)
class Notification:
    """What is sent. Title and body are plain text without line breaks."""

    type_id: TypeId
    title: str
    body: str
    url: str | None


@dataclass(frozen=True, slots=True)
class NotifyRequest:
    """A notification for some accounts.

    `keys` holds the account key of each account by its spelling, in the order of the request; two
    spellings may have one key. `notification_id` is the caller's idempotency key.
    """

    notification: Notification
    notification_id: str | None
    keys: Mapping[str, str]


class Obstacle(Enum):
    """Why an account is not sent to. The values are the protocol's, but for the last."""

    RATE_LIMITED = "rate_limited"
    TYPE_NOT_SUBSCRIBED = "type_not_subscribed"
    NOT_SUBSCRIBED = "not_subscribed"


@dataclass(frozen=True, slots=True)
class Failure:
    """An account that was not sent to, and when it can be: microseconds, 0 when waiting does not help."""

    obstacle: Obstacle
    retry_after_us: int = 0


@dataclass(frozen=True, slots=True)
class DeviceOfRecipient:
    """Where an account that is sent to wants its notifications too."""

    device_id: str
    url: str = field(repr=False)
    lane: str | None
    account: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What goes out to devices: the notification as it is stored, and its place in the inboxes."""

    project_id: str
    project_name: str
    notification: Notification
    number: int
    sent_at_ms: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """Who is subscribed, as JSON members `"spelling":{"notification_types":[...]}`.

    `spelled_otherwise` are the spellings that are not the stored one of a subscriber: only these may have a
    wrong checksum.
    """

    members: bytes
    spelled_otherwise: Sequence[str]


Failures = Mapping[str, Failure]
"""Those that were not sent to, by account key."""

Devices = Sequence[DeviceOfRecipient]

MessagesTo: TypeAlias = Callable[[Sent, Sequence[DeviceOfRecipient]], Sequence[OutgoingMessage]]
"""Writes what the devices of those who are sent to are told."""
