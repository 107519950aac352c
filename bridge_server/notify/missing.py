"""Accounts that a notification has not reached, and the reasons: parts of transactions that send and sweep.

They are kept for the operator for a while, and a project has a bounded number of them: the oldest make room.
"""

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass

import orjson

from bridge_server.notify import missed_sql as sql
from bridge_server.notify.models import AccountFailure, FailureReason, Failures
from bridge_server.projects.deleting import delete_unsent_notifications
from bridge_server.projects.models import Project
from bridge_server.storage.database import Row, Statement, Step, Transaction, json_array, scalar

_MISSED = (FailureReason.RATE_LIMITED, FailureReason.TYPE_NOT_SUBSCRIBED)
_EVICTED_AT_ONCE = 1_000
"""More than a call can add, so that a project comes down to a lowered bound."""

Counts = Mapping[FailureReason, int]
"""The number of accounts that a notification has not reached, by reason."""


@dataclass(slots=True)
class MissedLimits:
    """The limits of records about accounts without their notification, for one project."""

    most: int


def missed(failures: Failures) -> dict[str, AccountFailure]:
    """The failures of subscribers, by account key. The others are of accounts that nobody needs to know."""
    return {key: failure for key, failure in failures.items() if failure.reason in _MISSED}


def count(failures: Mapping[str, AccountFailure]) -> Counter[FailureReason]:
    """The number of failures by reason."""
    return Counter(failure.reason for failure in failures.values())


def record(
    project: Project, notification: int, failures: Mapping[str, AccountFailure], most: int, now_us: int
) -> Transaction[None]:
    """Store the failures, and delete the project's oldest ones if they are more than `most`."""
    if not failures:
        return
    rows = [[key, failure.reason.value, _retry_at_ms(failure, now_us)] for key, failure in failures.items()]
    row = (project.number, notification, now_us // 1000)
    added = scalar(int, (yield Statement(sql.INSERT, (*row, orjson.dumps(rows).decode()))))
    kept = scalar(int, (yield Statement(sql.COUNT, (added, project.number))))
    if kept > most:
        yield from _delete(sql.DELETE_OLDEST, project.number, min(kept - most, _EVICTED_AT_ONCE))


def forget(
    project: Project, notification: int, asked: str
) -> Generator[Step, list[Row], Counter[FailureReason]]:
    """Delete the earlier failures of accounts that are asked for again; returns their number by reason."""
    rows = yield Statement(sql.DELETE_ASKED, (project.number, notification, asked))
    if rows:
        yield Statement(sql.COUNT, (-len(rows), project.number))
    return Counter(FailureReason(reason) for (reason,) in rows)


def sweep_missed(before_ms: int, limit: int) -> Transaction[int]:
    """Delete a slice of the failures before this time; returns how many rows were deleted."""
    return (yield from _delete(sql.SWEEP, before_ms, limit))


def _delete(statement: str, which: int, limit: int) -> Transaction[int]:
    rows = yield Statement(statement, (which, limit))
    for project, number in Counter(project for project, _ in rows).items():
        yield Statement(sql.COUNT, (-number, project))
    notifications = json_array({notification for _, notification in rows})
    return len(rows) + (yield from delete_unsent_notifications(notifications))


def _retry_at_ms(failure: AccountFailure, now_us: int) -> int | None:
    if failure.reason is not FailureReason.RATE_LIMITED:
        return None
    return -(-(now_us + failure.retry_after_us) // 1000)
