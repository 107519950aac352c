"""Projects, notification types and subscriptions as the rules see them.

Times are milliseconds since the Unix epoch, days are whole days since then.
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
    """Where a project's backend hears of its subscriptions, and the secret that signs what it hears."""

    url: str
    signing_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Project:
    """An app that publishes. `account_limit` is its own limit per account; None: the server's."""

    number: int
    project_id: ProjectId
    name: str
    created_at_ms: int
    account_limit: Limit | None
    webhook: Webhook | None


@dataclass(frozen=True, slots=True)
class Publisher:
    """A project whose backend has sent a secret, and the SHA-256 of that: it may be revoked any moment."""

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
    """A live secret, without itself."""

    number: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret at the one moment at which it is known."""

    number: int
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProjectDetails:
    """A project and what belongs to it."""

    project: Project
    types: Sequence[NotificationType]
    secrets: Sequence[SecretInfo]
    subscribers: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """An account that receives some types of a project. `account` is the spelling that is listed.

    One that follows all receives the types that are made later, too.
    """

    account: str
    types: tuple[TypeId, ...]
    subscribed_at_ms: int
    follows_all: bool


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """What an account wants: some types, or with None every one that there is and will be."""

    account: Account
    types: tuple[TypeId, ...] | None


class Change(Enum):
    """What became of a subscription. The values are the protocol's with the project's webhook."""

    SUBSCRIBED = "subscribed"
    UPDATED = "updated"
    UNSUBSCRIBED = "unsubscribed"


@dataclass(frozen=True, slots=True)
class SubscriptionEvent:
    """A change of a subscription, for the project's backend.

    `number` counts the project's events: they may arrive in another order than they happened in.
    """

    change: Change
    project_id: ProjectId
    subscription: Subscription
    number: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ReadFigures:
    """How many notifications were sent, and what has become of them since."""

    sent: int
    read: int
    bulk_marked: int
    lapsed: int

    @property
    def read_rate(self) -> float | None:
        """Reads by users of what was not bulk-marked; None when there is nothing of that sort."""
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
class DailyFigures:
    """The figures of one type for what was sent on one day."""

    type_id: TypeId
    day: int
    figures: ReadFigures


MessageOf: TypeAlias = Callable[[SubscriptionEvent, Webhook], OutgoingMessage]
"""Writes what a project's webhook is told."""

IdAmong: TypeAlias = Callable[[AbstractSet[TypeId]], TypeId]
"""Chooses the id of a new type, given those that the project has."""
