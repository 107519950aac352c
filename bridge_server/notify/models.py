"""Models of the notification service: notifications, requests, results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from bridge_server.kernel.errors import Fault, InvalidInputError, NotFoundError
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.models import ProjectId, Publisher, TypeId, wrong_type


@dataclass(frozen=True, slots=True)
class Notification:
    """The content of a notification. Title and body are plain text without line breaks."""

    type_id: TypeId
    title: str
    body: str
    url: str | None


@dataclass(frozen=True, slots=True)
class NotifyRequest:
    """A notification and its accounts. `keys` maps each account id of the request, in its order, to its
    account key; two ids may have one key. `notification_id` is the caller's idempotency key.
    """

    notification: Notification
    notification_id: str | None
    keys: Mapping[str, str]


class FailureReason(Enum):
    """The reason why an account gets no notification. The first two values are the protocol's."""

    RATE_LIMITED = "rate_limited"
    TYPE_NOT_SUBSCRIBED = "type_not_subscribed"
    NOT_SUBSCRIBED = "not_subscribed"


@dataclass(frozen=True, slots=True)
class AccountFailure:
    """The failure of one account. `retry_after_us` is 0 if waiting does not help."""

    reason: FailureReason
    retry_after_us: int = 0


@dataclass(frozen=True, slots=True)
class DeviceOfRecipient:
    """A device of an account that gets the notification."""

    device_id: str
    url: str = field(repr=False)
    lane: str | None
    account: str


@dataclass(frozen=True, slots=True)
class SentNotification:
    """A stored notification with its project and its number in the inboxes, for the devices."""

    project_id: str
    project_name: str
    notification: Notification
    number: int
    sent_at_ms: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """Subscribers as JSON, `{"account id":{"notification_types":[...]}}`. `spelled_otherwise` are the account
    ids that differ from the stored ids: only they can have a wrong checksum.
    """

    subscribers: bytes
    spelled_otherwise: Sequence[str]


@dataclass(frozen=True, slots=True)
class Outdated:
    """The times before which notifications were read or sent, or failures recorded, that are deleted."""

    read_ms: int
    sent_ms: int
    missed_ms: int


Sender: TypeAlias = Publisher | ProjectId  # the app's backend; or its project, for which the operator sends

Failures: TypeAlias = Mapping[str, AccountFailure]
"""The failure of each account without a notification, by account key."""

MessageTo: TypeAlias = Callable[[SentNotification, DeviceOfRecipient], OutgoingMessage]


@dataclass(frozen=True, slots=True)
class SubscriberAudience:
    """The subscribers of a project that have chosen this type; None: all of them."""

    type_id: TypeId | None


Audience: TypeAlias = Mapping[str, str] | SubscriberAudience
"""The accounts that a notification is for: some, as account keys by account id, or subscribers."""


@dataclass(frozen=True, slots=True)
class AudienceRequest:
    """A notification and its audience. An audience of subscribers begins after the account id `after`."""

    notification: Notification
    notification_id: str | None
    audience: Audience
    after: str


@dataclass(frozen=True, slots=True)
class AudienceOutcome:
    """The accounts of one call, and their failures."""

    keys: Mapping[str, str]
    failures: Failures
    next: str | None  # the last of the accounts; None if no others follow
    total: int | None  # the accounts of the whole audience, counted by the first call of a walk alone


class UnknownTypeError(InvalidInputError):
    """The project does not have the type that the request names at this place."""

    def __init__(self, known: Sequence[TypeId], pointer: str) -> None:
        fault = Fault(pointer, wrong_type(known))
        super().__init__(f"The project has no notification type of this id: see {pointer}.", [fault])


class NotificationNotFoundError(NotFoundError, code="notification-not-found", title="Notification not found"):
    """The project has not sent a notification of this number, or it is not kept any more."""

    detail = "The project has no notification of this number."


@dataclass(frozen=True, slots=True)
class Delivered(DomainEvent):
    """A notification has arrived in the inboxes of these accounts, which are given by their numbers."""

    accounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AllMarkedRead(DomainEvent):
    """A project has marked all of its notifications as read."""
