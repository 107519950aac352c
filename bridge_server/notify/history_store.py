"""The store of notifications that were sent, as the operator sees them: nothing here writes."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from bridge_server.kernel.token_bucket import Limit, reckoned_anew, spend
from bridge_server.notify import history_sql as sql
from bridge_server.notify.errors import NotificationNotFoundError
from bridge_server.notify.history_models import (
    MISSED,
    AccountBucket,
    AccountNotification,
    AccountOutcome,
    DeliveryOutcome,
    NotificationFigures,
    OutcomeCursor,
    OutcomePage,
    PastNotification,
)
from bridge_server.notify.models import Notification
from bridge_server.projects.caip10 import account_of_key
from bridge_server.projects.models import Project, ProjectId, TypeId
from bridge_server.projects.store import find_project
from bridge_server.storage.database import Database, Row, Statement, Step, Transaction, reading, scalar

_LATER_THAN_ALL = 2**63 - 1
_SCANNED = 5_000
"""The most accounts that are read for a page of accounts with one outcome: the page may be short."""
_LAST_DELIVERIES = 1_000
"""The most deliveries of one account that are searched for a project's."""


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
        rows = yield Statement(sql.NOTIFICATIONS, (project.number, bound, limit))
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
        """A notification, and up to `limit` of its accounts with the wanted outcome.

        Accounts that it has not reached come first. Raises NotificationNotFoundError.
        """
        project = yield from find_project(project_id)
        rows = yield Statement(sql.NOTIFICATION, (project.number, number))
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
        rows = yield Statement(sql.BUCKET, (project.number, account))
        return _bucket(rows, project.account_limit or limit, now_us)

    @reading
    def received(
        self, project: Project, account_key: str, limit: int
    ) -> Transaction[list[AccountNotification]]:
        """The last notifications that the project has sent to the account, or meant for it."""
        account = yield from _account(account_key)
        rows = yield Statement(sql.RECEIVED, (account, _LAST_DELIVERIES, project.number, limit))
        rows = rows + (yield Statement(sql.MISSED_BY_ACCOUNT, (account, project.number, limit)))
        found = [_received(account_key, row) for row in rows]
        return sorted(found, key=lambda one: (one.outcome.at_ms, one.number), reverse=True)[:limit]


class _Scanned(NamedTuple):
    place: OutcomeCursor
    outcome: AccountOutcome


def _scan(
    project: Project, number: int, wanted: DeliveryOutcome | None, after: OutcomeCursor, most: int
) -> Generator[Step, list[Row], list[_Scanned]]:
    rows: list[Row] = []
    if not after.sending and (wanted is None or wanted in MISSED):
        rows = yield Statement(sql.MISSED, (project.number, number, after.account, most))
    if wanted not in MISSED and len(rows) < most:
        start = after if after.sending else OutcomeCursor()
        place = (start.sending, start.sending, start.account)
        rows = rows + (yield Statement(sql.DELIVERED, (number, *place, most - len(rows))))
    return [_scanned(row) for row in rows]


def _page(scanned: Sequence[_Scanned], wanted: DeliveryOutcome | None, limit: int, most: int) -> OutcomePage:
    found = [one for one in scanned if wanted is None or one.outcome.outcome is wanted]
    shown = [one.outcome for one in found[:limit]]
    if len(found) > limit:
        return OutcomePage(shown, found[limit - 1].place)
    return OutcomePage(shown, scanned[-1].place if len(scanned) >= most else None)


def _scanned(row: Row) -> _Scanned:
    sending, account, key, spelled, state, at_ms, read_at_ms, retry_at_ms = row
    shown = account_of_key(key).spelled if spelled is None else spelled
    outcome = AccountOutcome(shown, DeliveryOutcome(state), at_ms, read_at_ms, retry_at_ms)
    return _Scanned(OutcomeCursor(sending, account), outcome)


def _received(account_key: str, row: Row) -> AccountNotification:
    number, type_id, title, state, at_ms, read_at_ms, retry_at_ms = row
    outcome = AccountOutcome(account_key, DeliveryOutcome(state), at_ms, read_at_ms, retry_at_ms)
    return AccountNotification(number, type_id, title, outcome)


def _account(account_key: str) -> Generator[Step, list[Row], int]:
    """The number of an account; 0, which no account has, when it is unknown."""
    rows = yield Statement(sql.ACCOUNT, (account_key,))
    return scalar(int, rows) if rows else 0


def _bucket(rows: list[Row], limit: Limit, now_us: int) -> AccountBucket:
    full_at_us, interval_us = rows[0] if rows else (0, limit.interval_us)
    full_at_us = reckoned_anew(full_at_us, now_us, interval_us, limit.interval_us)
    left = spend(limit, full_at_us, now_us, cost=0)
    if not left.reset_us:
        return AccountBucket(left.remaining, None, None)
    owed_at_next_token_us = limit.window_us - (left.remaining + 1) * limit.interval_us
    next_token_at_us = left.full_at_us - owed_at_next_token_us
    return AccountBucket(left.remaining, _milliseconds(left.full_at_us), _milliseconds(next_token_at_us))


def _milliseconds(moment_us: int) -> int:
    """The first whole millisecond at which the moment has come."""
    return -(-moment_us // 1000)


def _past(row: Row) -> PastNotification:
    number, created_at_ms, type_id, title, body, url, notification_id, *counts = row
    content = Notification(TypeId(type_id), title, body, url)
    return PastNotification(number, created_at_ms, content, notification_id, NotificationFigures(*counts))
