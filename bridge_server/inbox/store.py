"""The store of inboxes."""

from collections.abc import Sequence

import orjson

from bridge_server.inbox import sql
from bridge_server.inbox.events import MarkedRead
from bridge_server.inbox.models import (
    Arrival,
    AvailableType,
    InboxSubscription,
    NotificationQuery,
    Overview,
    Positions,
    ReadBy,
    StoredNotification,
    UnsubscribedProject,
)
from bridge_server.projects.models import ProjectId, TypeId
from bridge_server.projects.turns import FIGURES
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Transaction,
    Turns,
    reading,
    scalar,
    transaction,
)
from bridge_server.storage.turns import always

_LATER_THAN_ALL = 2**63 - 1

_UNREAD = {None: (0, 1), False: (0, 0), True: (1, 1)}
"""The bounds of the 0 (read) or 1 (unread) of a notification that passes the filter."""


class InboxStore:
    """Durable subscriptions and notifications of accounts. Deleted projects do not appear."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def overview(self, account: int) -> Transaction[Overview]:
        """The account's subscriptions, earliest first, and the projects that it left with unread ones."""
        subscribed = yield Statement(sql.SUBSCRIPTIONS, (account,))
        unread = yield Statement(sql.UNREAD, (account,))
        return _overview(subscribed, unread)

    async def page(self, account: int, query: NotificationQuery) -> tuple[Sequence[StoredNotification], int]:
        """Up to `limit` notifications that match the query, newest first, and the number of the account's
        newest notification, matching or not, from one snapshot.
        """
        cursor, filters = query.cursor, query.filters
        before = _LATER_THAN_ALL if cursor.before is None else cursor.before
        unread = _UNREAD[filters.unread]
        bounds = (account, account, cursor.since, before)
        rows = await self.database.read(sql.PAGE, (*bounds, filters.project_id, *unread, query.limit))
        notifications = [_notification(row[1:]) for row in rows if row[1] is not None]
        return notifications, rows[0][0]

    async def number_of(self, account_key: str) -> int:
        """The number of an account; 0, which no account has, when it is unknown."""
        rows = await self.database.read(sql.ACCOUNT, (account_key,))
        return scalar(int, rows) if rows else 0

    async def newest(self, account: int) -> int:
        """The number of the account's newest notification; 0 when it has none."""
        return scalar(int, await self.database.read(sql.NEWEST, (account,)))

    async def page_after(self, account: int, after: int, limit: int) -> Sequence[StoredNotification]:
        """Up to `limit` of the account's notifications with numbers above `after`, oldest first."""
        rows = await self.database.read(sql.PAGE_AFTER, (account, after, limit))
        return [_notification(row) for row in rows]

    async def arrivals(self, positions: Positions, limit: int) -> Sequence[Arrival]:
        """Up to `limit` notifications that are newer than the position of one of the accounts, oldest first,
        each with the accounts that received it. Their read state is not loaded.
        """
        asked = orjson.dumps(positions, option=orjson.OPT_NON_STR_KEYS).decode()
        rows = await self.database.read(sql.ARRIVALS, (asked, limit))
        return [Arrival(_notification(row[1:]), orjson.loads(row[0])) for row in rows]

    @transaction(turns=always(Turns((FIGURES,))))
    def mark_read(self, account: int, sendings: Sequence[int], now_ms: int, by: ReadBy) -> Transaction[int]:
        """Mark unread notifications of the account as read and count them; returns how many."""
        asked, is_bulk = orjson.dumps(sendings).decode(), by is ReadBy.BULK
        rows = yield Statement(sql.MARK_READ, (-now_ms if is_bulk else now_ms, account, asked))
        marked = orjson.dumps([sending for (sending,) in rows]).decode()
        for statement in sql.COUNT_BULK_MARKED if is_bulk else sql.COUNT_READ:
            if rows:
                yield Statement(statement, (marked,))
        if rows:
            yield MarkedRead(account)
        return len(rows)


def _overview(subscribed: list[Row], unread_rows: list[Row]) -> Overview:
    unread = {number: row for number, *row in unread_rows}
    subscriptions = []
    for number, project_id, name, types, subscribed_at_ms, available in subscribed:
        _, _, count = unread.pop(number, (None, None, 0))
        subscriptions.append(
            InboxSubscription(
                ProjectId(project_id),
                name,
                orjson.loads(types),
                [AvailableType(TypeId(kind), label) for kind, label in orjson.loads(available)],
                count,
                subscribed_at_ms,
            )
        )
    left = [UnsubscribedProject(ProjectId(project), name, count) for project, name, count in unread.values()]
    return Overview(subscriptions, left)


def _notification(row: Row) -> StoredNotification:
    number, project_id, project_name, type_id, title, body, url, sent_at_ms, bulk_marked, read_at_ms = row
    bulk = ReadBy.BULK if bulk_marked else None
    return StoredNotification(
        sending=number,
        project_id=ProjectId(project_id),
        project_name=project_name,
        type_id=TypeId(type_id),
        title=title,
        body=body,
        url=url,
        sent_at_ms=sent_at_ms,
        read_by=bulk if read_at_ms is None else ReadBy.USER,
        read_at_ms=read_at_ms,
    )
