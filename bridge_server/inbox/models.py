"""Models of the inbox. The number of its sending names a notification; later ones have higher numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import NamedTuple, NewType

from bridge_server.kernel.errors import ConflictError, LimitError, NotAuthenticatedError, NotFoundError
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.values import dataclass
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import ProjectId, TypeId

DeviceId = NewType("DeviceId", str)


class Nonce(NamedTuple):
    """A nonce, which is valid for one sign-in."""

    text: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. Only its digest is stored, so this is the only time that it is known."""

    token: str = field(repr=False)
    account: str
    expires_at_ms: int


class Reader(NamedTuple):
    """A signed-in account: its number, and the digest and expiry of its token."""

    number: int
    account: Account
    digest: bytes
    expires_at_ms: int


class AvailableType(NamedTuple):
    """A notification type of a project."""

    type_id: TypeId
    name: str


class InboxSubscription(NamedTuple):
    """A subscription of the account, with its number of unread notifications."""

    project_id: ProjectId
    project_name: str
    types: Sequence[TypeId]
    available_types: Sequence[AvailableType]
    unread: int
    subscribed_at_ms: int


class UnsubscribedProject(NamedTuple):
    """A project that the account has unsubscribed from, with unread notifications."""

    project_id: ProjectId
    project_name: str
    unread: int


class Overview(NamedTuple):
    """The subscriptions of an account, and projects that it has left with unread notifications."""

    subscriptions: Sequence[InboxSubscription]
    unsubscribed: Sequence[UnsubscribedProject]


class ReadBy(Enum):
    """The party that marked a notification as read. The values are the protocol's."""

    USER = "user"
    BULK = "bulk"


class StoredNotification(NamedTuple):
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


class Cursor(NamedTuple):
    """Numbers above `since` and below `before` (None: no bound); `top` is the highest on earlier pages."""

    since: int = 0
    before: int | None = None
    top: int = 0


class NotificationQuery(NamedTuple):
    """At most `limit` notifications, newest first: of a project, unread (True) or read ones. None: of all."""

    project_id: ProjectId | None
    unread: bool | None
    cursor: Cursor
    limit: int


class Page(NamedTuple):
    """A page of notifications; `next` is the cursor of earlier ones, if any, `latest` of later ones."""

    notifications: Sequence[StoredNotification]
    next: Cursor | None
    latest: Cursor


class Arrival(NamedTuple):
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


class SignInRefusedError(NotAuthenticatedError, code="sign-in-refused", title="The sign-in is refused"):
    """The message is well formed, but its sign-in is refused; the detail says why."""


class WrongSignerError(SignInRefusedError):
    """The signature is of another account or of another text."""

    def __init__(self, signer: str) -> None:
        super().__init__(
            f"The signature of this message was made by {signer}, which is not the account that it names. "
            "Sign exactly the text that is sent (personal_sign, EIP-191)."
        )


class NonceRefusedError(SignInRefusedError):
    """The nonce is unknown, has been used, or has expired."""

    detail = (
        "The nonce of the message is unknown, was used before, or has expired. "
        "Get another with POST /inbox/nonce: it is good for one sign-in."
    )


class DeviceNotFoundError(NotFoundError, code="device-not-found", title="Device not found"):
    """The account has no device of this id."""

    detail = "The account has no device of this id. GET /inbox/devices lists its devices."


class TooManyDevicesError(ConflictError, code="too-many-devices", title="Too many devices"):
    """The account has reached the limit of devices."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The account has {limit} devices, which is the limit. Delete one first.")


class TooManyStreamsError(LimitError, code="too-many-streams", title="Too many open streams"):
    """The account has reached the limit of open streams."""

    def __init__(self, limit: int) -> None:
        detail = f"The account has {limit} open streams, which is the limit. Close one first."
        super().__init__(detail, retry_after_seconds=5)


@dataclass(frozen=True, slots=True)
class SignedOut(DomainEvent):
    """The token of this digest (SHA-256 in hexadecimal digits) is valid no longer."""

    digest: str


@dataclass(frozen=True, slots=True)
class MarkedRead(DomainEvent):
    """Notifications in the inbox of this account, which is given by its number, are marked as read."""

    account: int
