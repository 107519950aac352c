"""Notifications, their deliveries and the buckets that limit them in SQL."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import orjson

from bridge_server.kernel.instants import day_of
from bridge_server.kernel.token_bucket import Limit, spend
from bridge_server.notify import sql
from bridge_server.notify.errors import UnknownTypeError
from bridge_server.notify.events import Delivered
from bridge_server.notify.models import (
    AccountFailure,
    DeviceOfRecipient,
    FailureReason,
    Failures,
    Lookup,
    MessagesTo,
    Notification,
    NotifyRequest,
    SentNotification,
)
from bridge_server.outbox.store import enqueue_all
from bridge_server.projects.deleting import delete_sendings
from bridge_server.projects.errors import ProjectNotFoundError
from bridge_server.projects.models import Project, Publisher, TypeId
from bridge_server.projects.store import find_publishing, find_types
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Step,
    Transaction,
    adding_transaction,
    json_array,
    scalar,
    transaction,
)

_NO_ACCOUNTS = "[]"
_SWEEP_SLICE = 500


class NotifyStore:
    """Durable notifications, with the buckets that limit them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @adding_transaction
    def send(
        self,
        publisher: Publisher,
        request: NotifyRequest,
        limit: Limit,
        now_us: int,
        messages_to: MessagesTo,
    ) -> Transaction[Failures]:
        """Deliver to every account that may be sent to, charge each, queue its devices: all or nothing.

        `limit` applies to each account unless the project has its own.

        A known `notification_id` stands for the content of its first call; accounts that it has reached count
        as sent to and are charged nothing. Raises UnknownTypeError, and NotAuthenticatedError
        when the project or the secret is deleted.
        """
        asked = json_array(list(dict.fromkeys(request.keys.values())))
        project = yield from find_publishing(publisher)
        charged = project.account_limit or limit
        stored, left = yield from _stored(project, request, asked)
        accounts, failures = yield from _sort(project, stored.type, left, charged, now_us)
        if accounts != _NO_ACCOUNTS:
            stored = stored if stored.number else (yield from _store(project, stored, None))
            number = yield from _deliver(project, stored, accounts, now_us // 1000)
            yield _spend(project, accounts, charged, now_us)
            sent = SentNotification(
                project.project_id, project.name, stored.notification, number, now_us // 1000
            )
            yield from _queue_devices(project, sent, accounts, messages_to)
            yield Delivered(tuple(orjson.loads(accounts)))
        return failures

    @transaction
    def mark_all_as_read(self, publisher: Publisher, now_ms: int) -> Transaction[int]:
        """Mark every notification that the project has sent so far; returns how many were unread.

        Raises NotAuthenticatedError when the project or the secret is deleted.
        """
        project = yield from find_publishing(publisher)
        unread = scalar(int, (yield Statement(sql.COUNT_UNREAD, (project.number,))))
        if unread:
            yield Statement(sql.MARK_FIGURES, (project.number,))
        yield Statement(sql.MARK_THROUGH, (now_ms, project.number))
        return unread

    async def lookup(self, project: Project, keys: Mapping[str, str]) -> Lookup:
        """The subscribers among the accounts, whose keys are given by their spelling."""
        asked = orjson.dumps(keys).decode()
        ((members, others),) = await self.database.read(sql.LOOKUP, (asked, project.number))
        return Lookup(members or b"", orjson.loads(others))

    async def listing_page(self, project: Project, after: str, limit: int) -> tuple[bytes, str | None]:
        """Up to `limit` subscribed accounts that follow `after`, as JSON strings without the outer
        quotation marks; and the last of them, or None when no others follow. Raises ProjectNotFoundError.
        """
        begin = (project.number, after)
        ((accounts, last, is_there),) = await self.database.read(
            sql.LISTING_PAGE, (project.number, *begin, limit - 1, *begin)
        )
        if not is_there:
            raise ProjectNotFoundError
        return accounts or b"", last

    @transaction
    def sweep(self, now_ms: int, read_before_ms: int, sent_before_ms: int) -> Transaction[int]:
        """Delete a slice of the notifications that were read or sent before these times, and of the buckets
        that are full. Returns how many rows.
        """
        buckets = yield from _sweep_buckets(now_ms * 1000)
        if buckets:
            return buckets
        read = scalar(int, (yield Statement(sql.SWEEP_READ, (read_before_ms, _SWEEP_SLICE))))
        if read:
            return read
        ((old,),) = yield Statement(sql.OLD_SENDINGS, (sent_before_ms, _SWEEP_SLICE))
        deleted = yield from delete_sendings(old, _SWEEP_SLICE)
        if deleted:
            return deleted
        ((marked,),) = yield Statement(sql.BULK_MARKED_SENDINGS, (read_before_ms, _SWEEP_SLICE))
        return (yield from delete_sendings(marked, _SWEEP_SLICE))


@dataclass(frozen=True, slots=True)
class _Stored:
    """A notification with the numbers of its type and, once it has one, its own."""

    notification: Notification
    type: int
    number: int = 0
    has_key: bool = False


def _stored(
    project: Project, request: NotifyRequest, asked: str
) -> Generator[Step, list[Row], tuple[_Stored, str]]:
    """The content to send, and the account keys that it has not reached yet."""
    if request.notification_id is not None:
        rows = yield Statement(sql.FIRST_CALL, (project.number, request.notification_id))
        if rows:
            first = _first_call(rows[0])
            left = scalar(str, (yield Statement(sql.NOT_COVERED, (asked, first.number))))
            return first, left
    rows = yield Statement(sql.TYPE, (project.number, request.notification.type_id))
    if not rows:
        raise UnknownTypeError([kind.type_id for _, kind in (yield from find_types(project))])
    new = _Stored(request.notification, rows[0][0])
    if request.notification_id is not None:
        new = yield from _store(project, new, request.notification_id)
    return new, asked


def _store(
    project: Project, new: _Stored, notification_id: str | None
) -> Generator[Step, list[Row], _Stored]:
    content = (new.notification.title, new.notification.body, new.notification.url)
    row = (project.number, new.type, notification_id, *content)
    number = scalar(int, (yield Statement(sql.INSERT_NOTIFICATION, row)))
    return _Stored(new.notification, new.type, number, notification_id is not None)


def _sort(
    project: Project, type_number: int, asked: str, limit: Limit, now_us: int
) -> Generator[Step, list[Row], tuple[str, Failures]]:
    """The accounts that can be sent to, as a JSON array of numbers, and why others cannot."""
    most_owed_us = limit.window_us - limit.interval_us
    clock = (now_us, limit.interval_us)
    rows = yield Statement(sql.SORT, (*clock, most_owed_us, asked, project.number, type_number))
    accounts, others = rows[0]
    failures = {
        key: _failure(FailureReason(reason), owed_us, limit, now_us)
        for key, reason, owed_us in orjson.loads(others)
    }
    limited = [key for key, failure in failures.items() if failure.reason is FailureReason.RATE_LIMITED]
    if limited:
        yield Statement(sql.CLAMP, (*clock, limit.window_us, project.number, json_array(limited)))
    return accounts, failures


def _failure(reason: FailureReason, owed_us: int, limit: Limit, now_us: int) -> AccountFailure:
    if reason is not FailureReason.RATE_LIMITED:
        return AccountFailure(reason)
    return AccountFailure(reason, spend(limit, now_us + owed_us, now_us).retry_after_us)


def _spend(project: Project, accounts: str, limit: Limit, now_us: int) -> Statement:
    """Take a token from the bucket of each of these accounts, which have one."""
    return Statement(sql.SPEND, (now_us, limit.interval_us, project.number, accounts))


def _deliver(
    project: Project, stored: _Stored, accounts: str, now_ms: int
) -> Generator[Step, list[Row], int]:
    """Put the notification into the inboxes; returns the number of the sending."""
    row = (project.number, stored.type, stored.number, now_ms)
    number = scalar(int, (yield Statement(sql.INSERT_SENDING, row)))
    ((sent,),) = yield Statement(sql.INSERT_DELIVERIES, (number, accounts))
    if stored.has_key:
        yield Statement(sql.INSERT_COVERED, (stored.number, accounts))
    yield Statement(sql.COUNT_SENT, (project.number, stored.type, day_of(now_ms), sent))
    return number


def _queue_devices(
    project: Project, sent: SentNotification, accounts: str, messages_to: MessagesTo
) -> Transaction[None]:
    rows = yield Statement(sql.DEVICES, (accounts, project.number))
    devices = [DeviceOfRecipient(*row) for row in rows]
    yield from enqueue_all(messages_to(sent, devices), sent.sent_at_ms)


def _sweep_buckets(now_us: int) -> Transaction[int]:
    full = scalar(int, (yield Statement(sql.SWEEP_FULL_BUCKETS, (now_us, now_us, _SWEEP_SLICE))))
    others = scalar(int, (yield Statement(sql.PUT_OFF_BUCKETS, (now_us, _SWEEP_SLICE))))
    return full + others


def _first_call(row: Row) -> _Stored:
    number, type_number, type_id, title, body, url = row
    content = Notification(TypeId(type_id), title, body, url)
    return _Stored(content, type_number, number, has_key=True)
