"""One call to notify, as a part of a transaction: it finds the accounts that can be reached, and sends."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import orjson

from bridge_server.kernel.instants import day_of
from bridge_server.kernel.token_bucket import Limit, spend
from bridge_server.notify import sql
from bridge_server.notify.errors import UnknownTypeError
from bridge_server.notify.events import Delivered
from bridge_server.notify.missing import MissedLimits, count, forget, missed, record
from bridge_server.notify.models import (
    AccountFailure,
    DeviceOfRecipient,
    FailureReason,
    Failures,
    MessagesTo,
    Notification,
    NotifyRequest,
    SentNotification,
)
from bridge_server.outbox.store import enqueue_all
from bridge_server.projects.models import Project, TypeId
from bridge_server.projects.store import find_types
from bridge_server.storage.database import Row, Statement, Step, Transaction, json_array, scalar


@dataclass(frozen=True, slots=True)
class SendingLimits:
    """The rate limit of each account unless the project has its own, and the limit of recorded failures."""

    account: Limit
    missed: MissedLimits


@dataclass(frozen=True, slots=True)
class SortedAccounts:
    """The content of a call, and which of the accounts that it has not reached yet it can be sent to.

    `left` are the keys of all these accounts, `accounts` the numbers of the accounts to send to: JSON arrays.
    """

    stored: "SentContent"
    left: str
    accounts: str
    failures: Failures


@dataclass(frozen=True, slots=True)
class SentContent:
    """A notification with the numbers of its type and, once it is stored, its own."""

    notification: Notification
    type: int
    notification_id: str | None
    number: int = 0
    has_missed: bool = False


def sorted_accounts(
    project: Project, request: NotifyRequest, limits: SendingLimits, now_us: int
) -> Generator[Step, list[Row], SortedAccounts]:
    """Read what the call would do. Nothing is changed. Raises UnknownTypeError."""
    asked = json_array(list(dict.fromkeys(request.keys.values())))
    stored, left = yield from _stored(project, request, asked)
    accounts, failures = yield from _sort(
        project, stored.type, left, project.account_limit or limits.account, now_us
    )
    return SortedAccounts(stored, left, accounts, failures)


def send_to(
    project: Project, request: NotifyRequest, limits: SendingLimits, now_us: int, messages_to: MessagesTo
) -> Transaction[Failures]:
    """Deliver to the accounts that can be sent to, and record the others. Raises UnknownTypeError."""
    call = yield from sorted_accounts(project, request, limits, now_us)
    charged = project.account_limit or limits.account
    yield from _clamp(project, call.failures, charged, now_us)
    numbers: Sequence[int] = orjson.loads(call.accounts)
    stored = yield from _count_call(project, call, len(numbers), now_us // 1000)
    if numbers:
        number = yield from _deliver(project, stored, call.accounts, len(numbers), now_us // 1000)
        yield _spend(project, call.accounts, charged, now_us)
        sent = SentNotification(project.project_id, project.name, stored.notification, number, now_us // 1000)
        yield from _queue_devices(project, sent, call.accounts, messages_to)
        yield Delivered(tuple(numbers))
    yield from record(project, stored.number, missed(call.failures), limits.missed.most, now_us)
    return call.failures


def _stored(
    project: Project, request: NotifyRequest, asked: str
) -> Generator[Step, list[Row], tuple[SentContent, str]]:
    """The content to send, and the account keys that it has not reached yet."""
    if request.notification_id is not None:
        rows = yield Statement(sql.FIRST_CALL, (project.number, request.notification_id))
        if rows:
            first = _first_call(request.notification_id, rows[0])
            left = scalar(str, (yield Statement(sql.NOT_COVERED, (asked, first.number))))
            return first, left
    rows = yield Statement(sql.TYPE, (project.number, request.notification.type_id))
    if not rows:
        raise UnknownTypeError([kind.type_id for _, kind in (yield from find_types(project))])
    return SentContent(request.notification, rows[0][0], request.notification_id), asked


def _sort(
    project: Project, type_number: int, asked: str, limit: Limit, now_us: int
) -> Generator[Step, list[Row], tuple[str, Failures]]:
    """The accounts that can be sent to, as a JSON array of numbers, and the failures of the others."""
    most_owed_us = limit.window_us - limit.interval_us
    clock = (now_us, limit.interval_us)
    rows = yield Statement(sql.SORT, (*clock, most_owed_us, asked, project.number, type_number))
    accounts, others = rows[0]
    failures = {
        key: _failure(FailureReason(reason), owed_us, limit, now_us)
        for key, reason, owed_us in orjson.loads(others)
    }
    return accounts, failures


def _failure(reason: FailureReason, owed_us: int, limit: Limit, now_us: int) -> AccountFailure:
    if reason is not FailureReason.RATE_LIMITED:
        return AccountFailure(reason)
    return AccountFailure(reason, spend(limit, now_us + owed_us, now_us).retry_after_us)


def _clamp(project: Project, failures: Failures, limit: Limit, now_us: int) -> Transaction[None]:
    limited = [key for key, failure in failures.items() if failure.reason is FailureReason.RATE_LIMITED]
    if limited:
        clock = (now_us, limit.interval_us, limit.window_us)
        yield Statement(sql.CLAMP, (*clock, project.number, json_array(limited)))


def _count_call(
    project: Project, call: SortedAccounts, sent: int, now_ms: int
) -> Generator[Step, list[Row], SentContent]:
    """Count the outcomes of the call. A new notification is stored, unless there is nothing to remember."""
    stored, failed = call.stored, count(missed(call.failures))
    if not stored.number:
        if not sent and not failed and stored.notification_id is None:
            return stored
        counts = sent, failed[FailureReason.RATE_LIMITED], failed[FailureReason.TYPE_NOT_SUBSCRIBED]
        return (yield from _store(project, stored, now_ms, counts))
    if stored.has_missed:
        failed.subtract((yield from forget(project, stored.number, call.left)))
    counts = sent, failed[FailureReason.RATE_LIMITED], failed[FailureReason.TYPE_NOT_SUBSCRIBED]
    if any(counts):
        yield Statement(sql.COUNT_CALL, (*counts, stored.number))
    return stored


def _store(
    project: Project, new: SentContent, now_ms: int, counts: tuple[int, int, int]
) -> Generator[Step, list[Row], SentContent]:
    content = (new.notification.title, new.notification.body, new.notification.url)
    row = (project.number, new.type, new.notification_id, *content, now_ms, *counts)
    return replace(new, number=scalar(int, (yield Statement(sql.INSERT_NOTIFICATION, row))))


def _spend(project: Project, accounts: str, limit: Limit, now_us: int) -> Statement:
    """Take a token from the bucket of each of these accounts, which have one."""
    return Statement(sql.SPEND, (now_us, limit.interval_us, project.number, accounts))


def _deliver(
    project: Project, stored: SentContent, accounts: str, sent: int, now_ms: int
) -> Generator[Step, list[Row], int]:
    """Put the notification into the inboxes; returns the number of the sending."""
    row = (project.number, stored.type, stored.number, now_ms)
    number = scalar(int, (yield Statement(sql.INSERT_SENDING, row)))
    yield Statement(sql.INSERT_DELIVERIES, (number, accounts))
    if stored.notification_id is not None:
        yield Statement(sql.INSERT_COVERED, (stored.number, accounts))
    yield Statement(sql.COUNT_SENT, (project.number, stored.type, day_of(now_ms), sent))
    return number


def _queue_devices(
    project: Project, sent: SentNotification, accounts: str, messages_to: MessagesTo
) -> Transaction[None]:
    rows = yield Statement(sql.DEVICES, (accounts, project.number))
    devices = [DeviceOfRecipient(*row) for row in rows]
    yield from enqueue_all(messages_to(sent, devices), sent.sent_at_ms)


def _first_call(notification_id: str, row: Row) -> SentContent:
    number, type_number, type_id, title, body, url, missed = row
    content = Notification(TypeId(type_id), title, body, url)
    return SentContent(content, type_number, notification_id, number, bool(missed))
