"""Models of notifications that were sent, for the operator. Times are milliseconds since the Unix epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from bridge_server.notify.models import Notification


class DeliveryOutcome(Enum):
    """The outcome of a notification for one account. Operators see the values."""

    SENT = "sent"
    """The notification is in the account's inbox, unread."""
    READ = "read"
    """Its user has read it."""
    BULK_MARKED = "bulk_marked"
    """The app or the operator has marked it as read."""
    RATE_LIMITED = "rate_limited"
    TYPE_NOT_SUBSCRIBED = "type_not_subscribed"


MISSED = (DeliveryOutcome.RATE_LIMITED, DeliveryOutcome.TYPE_NOT_SUBSCRIBED)
"""The outcomes of accounts that the notification has not reached."""


@dataclass(frozen=True, slots=True)
class NotificationFigures:
    """Counts of the accounts of one notification. Accounts that it has reached are `sent`, read or not."""

    sent: int
    read: int
    bulk_marked: int
    rate_limited: int
    type_not_subscribed: int

    @property
    def read_rate(self) -> float | None:
        """Reads by users, divided by the deliveries that were not bulk-marked; None if there are none."""
        counted = self.sent - self.bulk_marked
        return self.read / counted if counted else None


@dataclass(frozen=True, slots=True)
class PastNotification:
    """A notification with its figures. An older version has not stored the time of the first call (None)."""

    number: int
    created_at_ms: int | None
    notification: Notification
    notification_id: str | None
    figures: NotificationFigures


@dataclass(frozen=True, slots=True)
class AccountOutcome:
    """The outcome for one account. `retry_at_ms` is when its rate limit lets the next notification pass."""

    account: str
    outcome: DeliveryOutcome
    at_ms: int
    read_at_ms: int | None = None
    retry_at_ms: int | None = None


class OutcomeCursor(NamedTuple):
    """A place among the accounts of a notification. Accounts that it has not reached have the sending 0."""

    sending: int = 0
    account: int = 0


@dataclass(frozen=True, slots=True)
class OutcomePage:
    """Some accounts of a notification; `next` is None at the end."""

    outcomes: Sequence[AccountOutcome]
    next: OutcomeCursor | None


@dataclass(frozen=True, slots=True)
class AccountNotification:
    """A notification and its outcome for the account that is looked at."""

    number: int
    type_id: str
    title: str
    outcome: AccountOutcome


@dataclass(frozen=True, slots=True)
class AccountBucket:
    """The bucket of an account with a project. The times are None if it is full."""

    tokens: int
    full_at_ms: int | None
    next_token_at_ms: int | None
