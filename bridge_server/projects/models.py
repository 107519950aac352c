"""Models of projects, notification types and subscriptions.

Times are milliseconds since the Unix epoch, days are whole days since the Unix epoch.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType, TypeAlias

from bridge_server.kernel.token_bucket import Limit
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.caip10 import Account

ProjectId = NewType("ProjectId", str)
TypeId = NewType("TypeId", str)


ACCOUNT_LIMIT = "account"


@dataclass(frozen=True, slots=True)
class Webhook:
    """The webhook for changes of a project's subscriptions, and the secret that signs its messages."""

    url: str
    signing_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Project:
    """An app that sends notifications. `account_limit` is its rate limit per account; None: the server's."""

    number: int
    project_id: ProjectId
    name: str
    created_at_ms: int
    account_limit: Limit | None
    webhook: Webhook | None


@dataclass(frozen=True, slots=True)
class Publisher:
    """An authenticated project and the SHA-256 of its secret, which may be revoked during the request."""

    project: Project
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotificationType:
    """A kind of notification that accounts subscribe to."""

    type_id: TypeId
    name: str
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """The metadata of a live secret."""

    number: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A new secret. Only its digest is stored, so this is the only time that it is known."""

    number: int
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProjectDetails:
    """A project with its types, secrets and number of subscribers."""

    project: Project
    types: Sequence[NotificationType]
    secrets: Sequence[SecretInfo]
    subscribers: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of an account to types of a project. `account` is the listed account id.

    With `follows_all` the account also receives types that are added later.
    """

    account: str
    types: tuple[TypeId, ...]
    subscribed_at_ms: int
    follows_all: bool


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A wanted subscription: some types, or None for all types including later ones."""

    account: Account
    types: tuple[TypeId, ...] | None


class SubscriptionChange(Enum):
    """A change of a subscription. Its values stand in messages to the project's webhook."""

    SUBSCRIBED = "subscribed"
    UPDATED = "updated"
    UNSUBSCRIBED = "unsubscribed"


@dataclass(frozen=True, slots=True)
class SubscriptionEvent:
    """The event of a changed subscription, for the project's webhook.

    `number` increases with each event of the project, because events may arrive out of order.
    """

    change: SubscriptionChange
    project_id: ProjectId
    subscription: Subscription
    number: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ReadFigures:
    """Counts of notifications that were sent, read by users, bulk-marked as read, and deleted unread."""

    sent: int
    read: int
    bulk_marked: int
    lapsed: int

    @property
    def read_rate(self) -> float | None:
        """Reads by users, divided by the notifications that were not bulk-marked; None if there are none."""
        counted = self.sent - self.bulk_marked
        return self.read / counted if counted else None

    def __add__(self, other: "ReadFigures") -> "ReadFigures":
        return ReadFigures(
            self.sent + other.sent,
            self.read + other.read,
            self.bulk_marked + other.bulk_marked,
            self.lapsed + other.lapsed,
        )


NO_FIGURES = ReadFigures(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ProjectOverview:
    """A project in a list of all: its types, its subscribers, and its figures of today and of some days."""

    project: Project
    types: Sequence[NotificationType]
    subscribers: int
    sent_today: int
    figures: ReadFigures


@dataclass(frozen=True, slots=True)
class DailyFigures:
    """The figures of the notifications of one type that were sent on one day."""

    type_id: TypeId
    day: int
    figures: ReadFigures


MessageOf: TypeAlias = Callable[[SubscriptionEvent, Webhook], OutgoingMessage]
"""Writes the message to a project's webhook."""

IdAmong: TypeAlias = Callable[[AbstractSet[TypeId]], TypeId]
"""Chooses the id of a new type, given the ids of the project's types."""
