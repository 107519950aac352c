"""Inboxes in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections.abc import Sequence
from typing import cast

import orjson

from bridge_server.inbox.models import (
    Arrival,
    AvailableType,
    InboxNotification,
    InboxSubscription,
    Leftover,
    Overview,
    Positions,
    Question,
    ReadBy,
)
from bridge_server.projects.models import ProjectId, TypeId
from bridge_server.storage import inbox_sql as sql
from bridge_server.storage.database import Database, Row, Statement, Transaction
from bridge_server.storage.reading import read_through

_LATER_THAN_ALL = 2**63 - 1

_UNREAD = {None: (0, 1), False: (0, 0), True: (1, 1)}
"""How unread a notification is that passes the filter, at least and at most."""


class SqlInboxStore:
    """Implements the store of inboxes on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def overview(self, account: int) -> Overview:
        def work() -> Transaction[Overview]:
            subscribed = yield Statement(sql.SUBSCRIPTIONS, (account,))
            unread = yield Statement(sql.UNREAD, (account,))
            return _overview(subscribed, unread)

        return await read_through(self._database, work)

    async def page(self, account: int, question: Question) -> tuple[Sequence[InboxNotification], int]:
        cursor, filters = question.cursor, question.filters
        before = _LATER_THAN_ALL if cursor.before is None else cursor.before
        unread = _UNREAD[filters.unread]
        bounds = (account, account, cursor.since, before)
        rows = await self._database.read(sql.PAGE, (*bounds, filters.project_id, *unread, question.limit))
        notifications = [_notification(row[1:]) for row in rows if row[1] is not None]
        return notifications, cast(int, rows[0][0])

    async def newest(self, account: int) -> int:
        ((newest,),) = await self._database.read(sql.NEWEST, (account,))
        return cast(int, newest)

    async def page_after(self, account: int, after: int, limit: int) -> Sequence[InboxNotification]:
        rows = await self._database.read(sql.PAGE_AFTER, (account, after, limit))
        return [_notification(row) for row in rows]

    async def arrivals(self, positions: Positions, limit: int) -> Sequence[Arrival]:
        asked = orjson.dumps(positions, option=orjson.OPT_NON_STR_KEYS).decode()
        rows = await self._database.read(sql.ARRIVALS, (asked, limit))
        return [Arrival(_notification(row[1:]), orjson.loads(cast(str, row[0]))) for row in rows]

    async def mark_read(self, account: int, sendings: Sequence[int], now_ms: int) -> int:
        asked = orjson.dumps(sendings).decode()

        def work() -> Transaction[int]:
            rows = yield Statement(sql.MARK_READ, (now_ms, account, asked))
            if rows:
                yield Statement(sql.COUNT_READ, (orjson.dumps([sending for (sending,) in rows]).decode(),))
            return len(rows)

        return await self._database.transaction(work)


def _overview(subscribed: list[Row], unread_rows: list[Row]) -> Overview:
    unread = {cast(int, number): row for number, *row in unread_rows}
    subscriptions = []
    for number, project_id, name, types, subscribed_at_ms, available in subscribed:
        _, _, count = unread.pop(cast(int, number), (None, None, 0))
        subscriptions.append(
            InboxSubscription(
                ProjectId(cast(str, project_id)),
                cast(str, name),
                orjson.loads(cast(str, types)),
                [AvailableType(TypeId(kind), label) for kind, label in orjson.loads(cast(str, available))],
                cast(int, count),
                cast(int, subscribed_at_ms),
            )
        )
    leftovers = [
        Leftover(ProjectId(cast(str, project_id)), cast(str, name), cast(int, count))
        for project_id, name, count in unread.values()
    ]
    return Overview(subscriptions, leftovers)


def _notification(row: Row) -> InboxNotification:
    number, project_id, project_name, type_id, title, body, url, sent_at_ms, bulk_marked, read_at_ms = row
    bulk = ReadBy.BULK if bulk_marked else None
    return InboxNotification(
        sending=cast(int, number),
        project_id=ProjectId(cast(str, project_id)),
        project_name=cast(str, project_name),
        type_id=TypeId(cast(str, type_id)),
        title=cast(str, title),
        body=cast(str, body),
        url=cast(str | None, url),
        sent_at_ms=cast(int, sent_at_ms),
        read_by=bulk if read_at_ms is None else ReadBy.USER,
        read_at_ms=cast(int | None, read_at_ms),
    )
