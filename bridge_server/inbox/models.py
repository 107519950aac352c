"""Accounts that are signed in, and what they have, as the rules see it.

Times are milliseconds since the Unix epoch. A notification is known by the number of its sending, which
grows: a later one has a higher number in every inbox.
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
    """A text that is good for one sign-in."""

    text: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """A message as it was received, what it says, and a signature of 65 bytes."""

    text: str
    message: SignInMessage
    signature: bytes


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token at the one moment at which it is known."""

    token: str = field(repr=False)
    account: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Reader:
    """Whoever is signed in: the account with its number, and the token's digest and end."""

    number: int
    account: Account
    digest: bytes
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class AvailableType:
    """A type that can be subscribed to."""

    type_id: TypeId
    name: str


@dataclass(frozen=True, slots=True)
class InboxSubscription:
    """A project that the account is subscribed to, with what it has not read of it."""

    project_id: ProjectId
    project_name: str
    types: Sequence[TypeId]
    available_types: Sequence[AvailableType]
    unread: int
    subscribed_at_ms: int


@dataclass(frozen=True, slots=True)
class Leftover:
    """A project that the account is no longer subscribed to, and has unread notifications of."""

    project_id: ProjectId
    project_name: str
    unread: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that an account receives or has not read."""

    subscriptions: Sequence[InboxSubscription]
    leftovers: Sequence[Leftover]


class ReadBy(Enum):
    """Who marked a notification as read. The values are the protocol's."""

    USER = "user"
    BULK = "bulk"


@dataclass(frozen=True, slots=True)
class InboxNotification:
    """A notification in an inbox. `read_at_ms` is known when the user read it."""

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
    """A place in an inbox: what is later than `since` and earlier than `before` (None: no bound).

    `top` is the latest notification that the reader has been told of on the way here.
    """

    since: int = 0
    before: int | None = None
    top: int = 0


@dataclass(frozen=True, slots=True)
class Filters:
    """What a reader wants to see: of one project, only unread, only read; None: whatever it is."""

    project_id: ProjectId | None = None
    unread: bool | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Which notifications are asked for, newest first, and at most how many."""

    filters: Filters
    cursor: Cursor
    limit: int


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a question. `next` leads to earlier ones, None when there are none; `latest` leads to
    what has not come yet.
    """

    notifications: Sequence[InboxNotification]
    next: Cursor | None
    latest: Cursor


@dataclass(frozen=True, slots=True)
class Arrival:
    """A notification, and the accounts whose inboxes it came into, by number."""

    notification: InboxNotification
    accounts: Sequence[int]


Positions = Mapping[int, int]
"""The latest notification that each account has been told of, by the account's number."""


@dataclass(frozen=True, slots=True)
class NewDevice:
    """Where an account wants its notifications too, in the outbox's terms: a URL, and what it waits in."""

    channel: str
    url: str = field(repr=False)
    lane: str | None


@dataclass(frozen=True, slots=True)
class Device:
    """A device that the account has."""

    device_id: DeviceId
    channel: str
    url: str = field(repr=False)
    created_at_ms: int
