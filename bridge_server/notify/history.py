"""Notifications that were sent, with their outcomes, as the operator sees them: nothing here writes."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from bridge_server.kernel.token_bucket import Limit, reckoned_anew, spend
from bridge_server.kernel.values import dataclass
from bridge_server.notify.models import Notification, NotificationNotFoundError
from bridge_server.notify.store import BULK_MARKED
from bridge_server.projects.caip10 import account_of_key
from bridge_server.projects.models import Project, ProjectId, TypeId
from bridge_server.projects.store import find_project
from bridge_server.projects.subscriptions import ACCOUNT
from bridge_server.storage.database import Database, Row, Statement, Transaction, reading, scalar


class DeliveryOutcome(StrEnum):
    """The outcome of a notification for one account. Operators see the values."""

    SENT = "sent"  # the notification is in the account's inbox, unread
    READ = "read"  # its user has read it
    BULK_MARKED = "bulk_marked"  # the app or the operator has marked it as read
    RATE_LIMITED = "rate_limited"
    TYPE_NOT_SUBSCRIBED = "type_not_subscribed"


MISSED_OUTCOMES = (DeliveryOutcome.RATE_LIMITED, DeliveryOutcome.TYPE_NOT_SUBSCRIBED)
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
    """A notification and its outcome for one account."""

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


_Scanned: TypeAlias = tuple[OutcomeCursor, AccountOutcome]
"""The place of an account among the accounts of the notification, and its outcome."""

_NOTIFICATION = f"""
SELECT notifications.id, notifications.created_at_ms, notification_types.type_id, notifications.title,
    notifications.body, notifications.url, notifications.idempotency_key, notifications.sent,
    notifications.read, {BULK_MARKED}, notifications.rate_limited, notifications.type_not_subscribed
FROM notifications CROSS JOIN notification_types ON notification_types.id = notifications.type
WHERE notifications.project = ?
"""  # noqa: S608 - only the constant above
NOTIFICATIONS = f"{_NOTIFICATION} AND notifications.id < ? ORDER BY notifications.id DESC LIMIT ?"
NOTIFICATION = f"{_NOTIFICATION} AND notifications.id = ?"

# The outcome of a delivery, and when its user has read it.
_STATE = """
CASE WHEN {delivery}.read_at_ms > 0 THEN 'read'
     WHEN {delivery}.read_at_ms < 0 OR sendings.id <= projects.read_through THEN 'bulk_marked'
     ELSE 'sent' END,
sendings.sent_at_ms, CASE WHEN {delivery}.read_at_ms > 0 THEN {delivery}.read_at_ms END
"""
# An account that has unsubscribed since has only its key.
DELIVERED = f"""
SELECT sendings.id, deliveries.account, accounts.account_key, subscriptions.account_id,
       {_STATE.format(delivery="deliveries")}, NULL
FROM sendings
CROSS JOIN projects ON projects.id = sendings.project
CROSS JOIN deliveries ON deliveries.sending = sendings.id
CROSS JOIN accounts ON accounts.id = deliveries.account
LEFT JOIN subscriptions
    ON subscriptions.project = sendings.project AND subscriptions.account_key = accounts.account_key
WHERE sendings.notification = ? AND sendings.id >= ? AND (sendings.id > ? OR deliveries.account > ?)
ORDER BY sendings.id, deliveries.account LIMIT ?
"""  # noqa: S608 - only the constant above
MISSED = """
SELECT 0, missed_accounts.account, accounts.account_key, subscriptions.account_id, missed_accounts.reason,
       missed_accounts.at_ms, NULL, missed_accounts.retry_at_ms
FROM missed_accounts
CROSS JOIN accounts ON accounts.id = missed_accounts.account
LEFT JOIN subscriptions
    ON subscriptions.project = missed_accounts.project AND subscriptions.account_key = accounts.account_key
WHERE missed_accounts.project = ? AND missed_accounts.notification = ? AND missed_accounts.account > ?
ORDER BY missed_accounts.account LIMIT ?
"""

BUCKET = "SELECT full_at_us, interval_us FROM account_buckets WHERE project = ? AND account = ?"
# The last deliveries of the account, whichever project they are of, bound the search.
RECEIVED = f"""
SELECT notifications.id, notification_types.type_id, notifications.title,
       {_STATE.format(delivery="latest")}, NULL
FROM (SELECT account, sending, read_at_ms FROM deliveries
      WHERE account = ? ORDER BY sending DESC LIMIT ?) AS latest
CROSS JOIN sendings ON sendings.id = latest.sending AND sendings.project = ?
CROSS JOIN projects ON projects.id = sendings.project
CROSS JOIN notifications ON notifications.id = sendings.notification
CROSS JOIN notification_types ON notification_types.id = sendings.type
ORDER BY sendings.id DESC LIMIT ?
"""  # noqa: S608 - only the constant above
MISSED_BY_ACCOUNT = """
SELECT notifications.id, notification_types.type_id, notifications.title, missed_accounts.reason,
       missed_accounts.at_ms, NULL, missed_accounts.retry_at_ms
FROM missed_accounts
CROSS JOIN notifications ON notifications.id = missed_accounts.notification
CROSS JOIN notification_types ON notification_types.id = notifications.type
WHERE missed_accounts.account = ? AND missed_accounts.project = ?
ORDER BY missed_accounts.notification DESC LIMIT ?
"""

_LATER_THAN_ALL = 2**63 - 1
_SCANNED = 5_000  # the most accounts that are read for a page of one outcome: it may be short
_LAST_DELIVERIES = 1_000  # the most deliveries of one account that are searched for a project's


class HistoryStore:
    """Notifications that were sent, newest first. An unknown project raises ProjectNotFoundError."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def notifications(
        self, project_id: ProjectId, before: int | None, limit: int
    ) -> Transaction[list[PastNotification]]:
        """Up to `limit` notifications with numbers below `before`."""
        project = yield from find_project(project_id)
        bound = _LATER_THAN_ALL if before is None else before
        rows = yield Statement(NOTIFICATIONS, (project.number, bound, limit))
        return [_past(row) for row in rows]

    @reading
    def outcomes(
        self,
        project_id: ProjectId,
        number: int,
        wanted: DeliveryOutcome | None,
        after: OutcomeCursor,
        limit: int,
    ) -> Transaction[tuple[PastNotification, OutcomePage]]:
        """A notification and some of its accounts, missed ones first. Raises NotificationNotFoundError."""
        project = yield from find_project(project_id)
        rows = yield Statement(NOTIFICATION, (project.number, number))
        if not rows:
            raise NotificationNotFoundError
        most = limit + 1 if wanted is None else _SCANNED
        scanned = yield from _scan(project, number, wanted, after, most)
        return _past(rows[0]), _page(scanned, wanted, limit, most)

    @reading
    def bucket(
        self, project: Project, account_key: str, limit: Limit, now_us: int
    ) -> Transaction[AccountBucket]:
        """The bucket of an account. `limit` applies unless the project has its own."""
        account = yield from _account(account_key)
        rows = yield Statement(BUCKET, (project.number, account))
        limit = project.account_limit or limit
        full_at_us, interval_us = rows[0] if rows else (0, limit.interval_us)
        full_at_us = reckoned_anew(full_at_us, now_us, interval_us, limit.interval_us)
        left = spend(limit, full_at_us, now_us, cost=0)
        if not left.reset_us:
            return AccountBucket(left.remaining, None, None)
        debt_at_next_token_us = limit.window_us - (left.remaining + 1) * limit.interval_us
        next_token_at_us = left.full_at_us - debt_at_next_token_us
        return AccountBucket(left.remaining, _milliseconds(left.full_at_us), _milliseconds(next_token_at_us))

    @reading
    def received(
        self, project: Project, account_key: str, limit: int
    ) -> Transaction[list[AccountNotification]]:
        """The last notifications that the project has sent to the account, or has tried to send to it."""
        account = yield from _account(account_key)
        rows = yield Statement(RECEIVED, (account, _LAST_DELIVERIES, project.number, limit))
        rows = rows + (yield Statement(MISSED_BY_ACCOUNT, (account, project.number, limit)))
        found = [_received(account_key, row) for row in rows]
        return sorted(found, key=lambda one: (one.outcome.at_ms, one.number), reverse=True)[:limit]


def _past(row: Row) -> PastNotification:
    number, created_at_ms, type_id, title, body, url, notification_id, *counts = row
    content = Notification(TypeId(type_id), title, body, url)
    return PastNotification(number, created_at_ms, content, notification_id, NotificationFigures(*counts))


def _scan(
    project: Project, number: int, wanted: DeliveryOutcome | None, after: OutcomeCursor, most: int
) -> Transaction[list[_Scanned]]:
    rows: list[Row] = []
    if not after.sending and (wanted is None or wanted in MISSED_OUTCOMES):
        rows = yield Statement(MISSED, (project.number, number, after.account, most))
    if wanted not in MISSED_OUTCOMES and len(rows) < most:
        start = after if after.sending else OutcomeCursor()
        place = (start.sending, start.sending, start.account)
        rows = rows + (yield Statement(DELIVERED, (number, *place, most - len(rows))))
    return [_scanned(row) for row in rows]


def _scanned(row: Row) -> _Scanned:
    sending, account, key, spelled, state, at_ms, read_at_ms, retry_at_ms = row
    shown = account_of_key(key).spelled if spelled is None else spelled
    outcome = AccountOutcome(shown, DeliveryOutcome(state), at_ms, read_at_ms, retry_at_ms)
    return OutcomeCursor(sending, account), outcome


def _page(scanned: Sequence[_Scanned], wanted: DeliveryOutcome | None, limit: int, most: int) -> OutcomePage:
    found = [(place, one) for place, one in scanned if wanted is None or one.outcome is wanted]
    shown = [one for _, one in found[:limit]]
    if len(found) > limit:
        return OutcomePage(shown, found[limit - 1][0])
    return OutcomePage(shown, scanned[-1][0] if len(scanned) >= most else None)


def _account(account_key: str) -> Transaction[int]:
    """The number of an account; 0, which no account has, when it is unknown."""
    rows = yield Statement(ACCOUNT, (account_key,))
    return scalar(int, rows) if rows else 0


def _milliseconds(moment_us: int) -> int:
    """The first whole millisecond at which the moment has come."""
    return -(-moment_us // 1000)


def _received(account_key: str, row: Row) -> AccountNotification:
    number, type_id, title, state, at_ms, read_at_ms, retry_at_ms = row
    outcome = AccountOutcome(account_key, DeliveryOutcome(state), at_ms, read_at_ms, retry_at_ms)
    return AccountNotification(number, type_id, title, outcome)
