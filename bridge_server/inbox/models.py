"""Models of the inbox.

Times are milliseconds since the Unix epoch. A notification is identified by the number of its sending. The
numbers increase: in every inbox a later notification has a higher number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

from bridge_server.ethereum.sign_in_message import SignInMessage
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import ProjectId, TypeId

DeviceId = NewType("DeviceId", str)


@dataclass(frozen=True, slots=True)
class Nonce:
    """A nonce, which is valid for one sign-in."""

    text: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """A sign-in message, as text and parsed, and its signature of 65 bytes."""

    text: str
    message: SignInMessage
    signature: bytes


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. Only its digest is stored, so this is the only time that it is known."""

    token: str = field(repr=False)
    account: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Reader:
    """A signed-in account: its number, and the digest and expiry of its token."""

    number: int
    account: Account
    digest: bytes
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class AvailableType:
    """A notification type of a project."""

    type_id: TypeId
    name: str


@dataclass(frozen=True, slots=True)
class InboxSubscription:
    """A subscription of the account, with its number of unread notifications."""

    project_id: ProjectId
    project_name: str
    types: Sequence[TypeId]
    available_types: Sequence[AvailableType]
    unread: int
    subscribed_at_ms: int


@dataclass(frozen=True, slots=True)
class UnsubscribedProject:
    """A project that the account has unsubscribed from, with unread notifications."""

    project_id: ProjectId
    project_name: str
    unread: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The subscriptions of an account, and projects that it has left with unread notifications."""

    subscriptions: Sequence[InboxSubscription]
    unsubscribed: Sequence[UnsubscribedProject]


class ReadBy(Enum):
    """The party that marked a notification as read. The values are the protocol's."""

    USER = "user"
    BULK = "bulk"


@dataclass(frozen=True, slots=True)
class StoredNotification:
    """A notification in an inbox. `read_at_ms` is set if the user has read it."""

    sending: int
    project_id: ProjectId
    project_name: str
    type_id: TypeId
    title: str
    body: str
    url: str | None
    sent_at_ms: int
    read_by: ReadBy | None
    read_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A range of an inbox: numbers above `since` and below `before` (None: no bound).

    `top` is the highest number that the account has received on the earlier pages.
    """

    since: int = 0
    before: int | None = None
    top: int = 0


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters by project, and by unread (True) or read (False). None: no filter."""

    project_id: ProjectId | None = None
    unread: bool | None = None


@dataclass(frozen=True, slots=True)
class NotificationQuery:
    """A query for notifications, newest first, at most `limit`."""

    filters: Filters
    cursor: Cursor
    limit: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page of notifications. `next` is the cursor of earlier ones, None if there are none; `latest` is the
    cursor of later ones.
    """

    notifications: Sequence[StoredNotification]
    next: Cursor | None
    latest: Cursor


@dataclass(frozen=True, slots=True)
class Arrival:
    """A notification, and the numbers of the accounts to which it was delivered."""

    notification: StoredNotification
    accounts: Sequence[int]


Positions = Mapping[int, int]
"""The number of the last notification that was sent to each account, by the account's number."""


@dataclass(frozen=True, slots=True)
class NewDevice:
    """A device to register: its channel, its URL in the outbox, and the lane of its messages."""

    channel: str
    url: str = field(repr=False)
    lane: str | None


@dataclass(frozen=True, slots=True)
class Device:
    """A registered device."""

    device_id: DeviceId
    channel: str
    url: str = field(repr=False)
    created_at_ms: int
