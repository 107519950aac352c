"""Notifications, their deliveries and the buckets that limit them in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from bridge_server.kernel.instants import day_of
from bridge_server.kernel.token_bucket import Limit, spend
from bridge_server.notify.errors import UnknownTypeError
from bridge_server.notify.models import (
    DeviceOfRecipient,
    Failure,
    Failures,
    Notification,
    NotifyRequest,
    Obstacle,
    Sent,
)
from bridge_server.notify.store import MessagesTo
from bridge_server.projects.models import Project, TypeId
from bridge_server.storage import notify_sql as sql
from bridge_server.storage.database import Announcement, Database, Row, Statement, Step, Transaction
from bridge_server.storage.outbox_store import enqueue

DELIVERIES = "deliveries"
"""The kind of key that is touched when something arrived in inboxes; its id is a JSON array of the
accounts' numbers.
"""

_NOBODY = "[]"
_SWEEP_SLICE = 500


class SqlNotifyStore:
    """Implements the store of notifications on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def send(
        self,
        project: Project,
        request: NotifyRequest,
        limit: Limit,
        now_us: int,
        messages_to: MessagesTo,
    ) -> Failures:
        asked = _json_array(list(dict.fromkeys(request.keys.values())))

        def work() -> Transaction[Failures]:
            stored, left = yield from _stored(project, request, asked)
            accounts, failures = yield from _sort(project, stored.type, left, limit, now_us)
            if accounts != _NOBODY:
                stored = stored if stored.number else (yield from _store(project, stored, None))
                number = yield from _deliver(project, stored, accounts, now_us // 1000)
                full_at_us = now_us + limit.interval_us
                yield Statement(sql.SPEND, (project.number, full_at_us, full_at_us, accounts, now_us, now_us))
                sent = Sent(project.project_id, project.name, stored.notification, number, now_us // 1000)
                yield from _queue_devices(project, sent, accounts, messages_to)
                yield Announcement((DELIVERIES, accounts))
            return failures

        return await self._database.transaction(work)

    async def mark_all_as_read(self, project: Project) -> int:
        def work() -> Transaction[int]:
            ((unread,),) = yield Statement(sql.COUNT_UNREAD, (project.number,))
            if unread:
                yield Statement(sql.MARK_FIGURES, (project.number,))
            yield Statement(sql.MARK_THROUGH, (project.number,))
            return cast(int, unread)

        return await self._database.transaction(work)

    async def lookup(self, project: Project, keys: Mapping[str, str]) -> bytes:
        asked = orjson.dumps(keys).decode()
        ((members,),) = await self._database.read(sql.LOOKUP, (asked, project.number))
        return cast(bytes, members or b"")

    async def listing_page(self, project: Project, after: str, limit: int) -> tuple[bytes, str | None]:
        begin = (project.number, after)
        ((accounts, last),) = await self._database.read(sql.LISTING_PAGE, (*begin, limit - 1, *begin))
        return cast(bytes, accounts or b""), cast(str | None, last)

    async def sweep(self, now_ms: int, read_sent_before_ms: int, unread_sent_before_ms: int) -> int:
        def work() -> Transaction[int]:
            buckets = yield from _sweep_buckets(now_ms * 1000)
            if buckets:
                return buckets
            ((read,),) = yield Statement(
                sql.SWEEP_READ, (read_sent_before_ms, read_sent_before_ms, _SWEEP_SLICE)
            )
            if read:
                return cast(int, read)
            old = yield Statement(sql.OLD_SENDING, (unread_sent_before_ms,))
            if not old:
                old = yield Statement(sql.BULK_MARKED_SENDING, (read_sent_before_ms, read_sent_before_ms))
            return (yield from _sweep_sending(old[0])) if old else 0

        return await self._database.transaction(work)


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
    """What is to be sent, and the account keys that it has not reached yet."""
    if request.notification_id is not None:
        rows = yield Statement(sql.FIRST_CALL, (project.number, request.notification_id))
        if rows:
            first = _first_call(rows[0])
            ((left,),) = yield Statement(sql.NOT_COVERED, (asked, first.number))
            return first, cast(str, left)
    rows = yield Statement(sql.TYPE, (project.number, request.notification.type_id))
    if not rows:
        raise UnknownTypeError
    new = _Stored(request.notification, cast(int, rows[0][0]))
    if request.notification_id is not None:
        new = yield from _store(project, new, request.notification_id)
    return new, asked


def _store(
    project: Project, new: _Stored, notification_id: str | None
) -> Generator[Step, list[Row], _Stored]:
    content = (new.notification.title, new.notification.body, new.notification.url)
    row = (project.number, new.type, notification_id, *content)
    ((number,),) = yield Statement(sql.INSERT_NOTIFICATION, row)
    return _Stored(new.notification, new.type, cast(int, number), notification_id is not None)


def _sort(
    project: Project, type_number: int, asked: str, limit: Limit, now_us: int
) -> Generator[Step, list[Row], tuple[str, Failures]]:
    """The accounts that can be sent to, as a JSON array of numbers, and why others cannot."""
    full_us = now_us + limit.window_us
    rows = yield Statement(
        sql.SORT, (full_us - limit.interval_us, asked, project.number, type_number, project.number)
    )
    accounts, others = rows[0]
    failures = {}
    for key, obstacle, full_at_us in orjson.loads(cast(str, others)):
        retry_after_us = 0
        if obstacle == Obstacle.RATE_LIMITED.value:
            retry_after_us = spend(limit, full_at_us, now_us).retry_after_us
        failures[key] = Failure(Obstacle(obstacle), retry_after_us)
    if any(failure.obstacle is Obstacle.RATE_LIMITED for failure in failures.values()):
        limited = _json_array(list(failures))
        yield Statement(sql.CLAMP, (full_us, full_us, project.number, full_us, limited, project.number))
    return cast(str, accounts), failures


def _deliver(
    project: Project, stored: _Stored, accounts: str, now_ms: int
) -> Generator[Step, list[Row], int]:
    """Put the notification into the inboxes; returns the number of the sending."""
    row = (project.number, stored.type, stored.number, now_ms)
    ((number,),) = yield Statement(sql.INSERT_SENDING, row)
    ((sent,),) = yield Statement(sql.INSERT_DELIVERIES, (number, accounts))
    if stored.has_key:
        yield Statement(sql.INSERT_COVERED, (stored.number, accounts))
    yield Statement(sql.COUNT_SENT, (project.number, stored.type, day_of(now_ms), sent))
    return cast(int, number)


def _queue_devices(project: Project, sent: Sent, accounts: str, messages_to: MessagesTo) -> Transaction[None]:
    rows = yield Statement(sql.DEVICES, (accounts, project.number))
    devices = [DeviceOfRecipient(*cast(tuple[str, str, str, str], row)) for row in rows]
    for message in messages_to(sent, devices):
        yield from enqueue(message, sent.sent_at_ms)


def _sweep_buckets(now_us: int) -> Transaction[int]:
    ((full,),) = yield Statement(sql.SWEEP_FULL_BUCKETS, (now_us, now_us, _SWEEP_SLICE))
    ((others,),) = yield Statement(sql.PUT_OFF_BUCKETS, (now_us, _SWEEP_SLICE))
    return cast(int, full) + cast(int, others)


def _sweep_sending(row: Row) -> Transaction[int]:
    sending, project, type_number, notification, sent_at_ms, bulk_marked = row
    yield Statement(sql.DELETE_READ, (sending,))  # few if any: they have been swept before
    ((deleted,),) = yield Statement(sql.SWEEP_DELIVERIES, (sending, _SWEEP_SLICE))
    if deleted:
        if not bulk_marked:
            day = day_of(cast(int, sent_at_ms))
            yield Statement(sql.COUNT_LAPSED, (deleted, project, type_number, day))
        return cast(int, deleted)
    yield Statement(sql.DELETE_SENDING, (sending,))
    yield Statement(sql.DELETE_NOTIFICATION, (notification,))
    return 1


def _first_call(row: Row) -> _Stored:
    number, type_number, type_id, title, body, url = row
    content = Notification(
        TypeId(cast(str, type_id)), cast(str, title), cast(str, body), cast(str | None, url)
    )
    return _Stored(content, cast(int, type_number), cast(int, number), has_key=True)


def _json_array(keys: list[str]) -> str:
    return orjson.dumps(keys).decode()
