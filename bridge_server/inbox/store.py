"""Inboxes: their store, and how an account reads its own: pages, long polls, marking as read."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

import orjson

from bridge_server.inbox import models
from bridge_server.inbox.models import NotificationQuery, Overview, Page, ReadBy, StoredNotification
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Key, Signals
from bridge_server.projects.models import ProjectId, TypeId
from bridge_server.projects.store import TURN_OF_FIGURES, counting
from bridge_server.projects.subscriptions import ACCOUNT
from bridge_server.storage import database as sql
from bridge_server.storage.database import Transaction

_CONTENT_COLUMNS = """
    sendings.id, projects.project_id, projects.name, notification_types.type_id,
    notifications.title, notifications.body, notifications.url, sendings.sent_at_ms
"""
_COLUMNS = f"""
    {_CONTENT_COLUMNS}, sendings.id <= projects.read_through OR deliveries.read_at_ms < 0 AS is_bulk_marked,
    CASE WHEN deliveries.read_at_ms > 0 THEN deliveries.read_at_ms END
"""
_CONTENT = """
    JOIN projects ON projects.id = sendings.project AND projects.project_id IS NOT NULL
    JOIN notifications ON notifications.id = sendings.notification
    JOIN notification_types ON notification_types.id = sendings.type
"""

SUBSCRIPTIONS = """
SELECT projects.id, projects.project_id, projects.name, type_sets.types, subscriptions.subscribed_at_ms,
    (SELECT json_group_array(json_array(type_id, name)) FROM (
        SELECT type_id, name FROM notification_types
        WHERE notification_types.project = projects.id AND removed_at_ms IS NULL ORDER BY id
    ) AS available)
FROM subscriptions
JOIN projects ON projects.id = subscriptions.project AND projects.project_id IS NOT NULL
JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.account = ? ORDER BY subscriptions.subscribed_at_ms, projects.id
"""
UNREAD = """
SELECT projects.id, projects.project_id, projects.name, count(*)
FROM deliveries
JOIN sendings ON sendings.id = deliveries.sending
JOIN projects ON projects.id = sendings.project
WHERE deliveries.account = ? AND deliveries.read_at_ms IS NULL
    AND deliveries.sending > projects.read_through AND projects.project_id IS NOT NULL
GROUP BY projects.id ORDER BY projects.id
"""

NEWEST = "SELECT coalesce(max(sending), 0) FROM deliveries WHERE account = ?"

# At least one row, with the newest number; without a notification its other columns are NULL. The conditions
# on project and unread are written so that no index applies: SQLite must search by account.
PAGE = f"""
SELECT (SELECT coalesce(max(sending), 0) FROM deliveries WHERE account = ?), page.*
FROM (SELECT 1 AS one) AS once LEFT JOIN (
    SELECT {_COLUMNS}
    FROM deliveries JOIN sendings ON sendings.id = deliveries.sending {_CONTENT}
    WHERE deliveries.account = ? AND deliveries.sending > ? AND deliveries.sending < ?
        AND coalesce(?, projects.project_id) = projects.project_id
        AND CASE WHEN deliveries.read_at_ms IS NULL AND sendings.id > projects.read_through THEN 1 ELSE 0 END
            BETWEEN ? AND ?
    ORDER BY deliveries.sending DESC LIMIT ?
) AS page ON true
ORDER BY page.id DESC
"""  # noqa: S608 - only the constants above
PAGE_AFTER = f"""
SELECT {_COLUMNS}
FROM deliveries JOIN sendings ON sendings.id = deliveries.sending {_CONTENT}
WHERE deliveries.account = ? AND deliveries.sending > ?
ORDER BY deliveries.sending LIMIT ?
"""  # noqa: S608 - only the constants above
# The parameter is a JSON object: the number of each account with the last sending that its streams have got.
ARRIVALS = f"""
SELECT arrived.accounts, {_CONTENT_COLUMNS}, sendings.id <= projects.read_through, NULL
FROM (
    SELECT deliveries.sending, json_group_array(deliveries.account) AS accounts
    FROM json_each(?) AS asked
    CROSS JOIN deliveries
        ON deliveries.account = CAST(asked.key AS INTEGER) AND deliveries.sending > asked.value
    CROSS JOIN sendings ON sendings.id = deliveries.sending
    CROSS JOIN projects ON projects.id = sendings.project AND projects.project_id IS NOT NULL
    GROUP BY deliveries.sending ORDER BY deliveries.sending LIMIT ?
) AS arrived
JOIN sendings ON sendings.id = arrived.sending {_CONTENT}
ORDER BY sendings.id
"""  # noqa: S608 - only the constants above

# The time is negative if the operator marks them.
MARK_READ = """
UPDATE deliveries SET read_at_ms = ?
WHERE account = ? AND sending IN (SELECT value FROM json_each(?)) AND read_at_ms IS NULL AND EXISTS (
    SELECT 1 FROM sendings JOIN projects ON projects.id = sendings.project
    WHERE sendings.id = deliveries.sending
        AND sendings.id > projects.read_through AND projects.project_id IS NOT NULL
)
RETURNING sending
"""


COUNT_READ = counting("read")
COUNT_BULK_MARKED = counting("bulk_marked")

_LATER_THAN_ALL = 2**63 - 1

_UNREAD = {None: (0, 1), False: (0, 0), True: (1, 1)}
"""The bounds of the 0 (read) or 1 (unread) of a notification that passes the filter."""


class InboxStore:
    """Durable subscriptions and notifications of accounts. Deleted projects do not appear."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    @sql.reading
    def overview(self, account: int) -> Transaction[Overview]:
        """The account's subscriptions, earliest first, and the projects that it left with unread ones."""
        subscribed = yield sql.Statement(SUBSCRIPTIONS, (account,))
        unread_rows = yield sql.Statement(UNREAD, (account,))
        unread = {number: row for number, *row in unread_rows}
        subscriptions = []
        for number, project_id, name, types, subscribed_at_ms, available in subscribed:
            _, _, count = unread.pop(number, (None, None, 0))
            offered = [models.AvailableType(TypeId(kind), label) for kind, label in orjson.loads(available)]
            project = (ProjectId(project_id), name, orjson.loads(types), offered)
            subscriptions.append(models.InboxSubscription(*project, count, subscribed_at_ms))
        left = [
            models.UnsubscribedProject(ProjectId(project), name, count)
            for project, name, count in unread.values()
        ]
        return Overview(subscriptions, left)

    async def page(self, account: int, query: NotificationQuery) -> tuple[Sequence[StoredNotification], int]:
        """Matching notifications, newest first, and the number of the newest of all, from one snapshot."""
        cursor = query.cursor
        before = _LATER_THAN_ALL if cursor.before is None else cursor.before
        bounds = (account, account, cursor.since, before)
        wanted = (query.project_id, *_UNREAD[query.unread], query.limit)
        rows = await self.database.read(PAGE, (*bounds, *wanted))
        notifications = [_notification(row[1:]) for row in rows if row[1] is not None]
        return notifications, rows[0][0]

    async def number_of(self, account_key: str) -> int:
        """The number of an account; 0, which no account has, when it is unknown."""
        rows = await self.database.read(ACCOUNT, (account_key,))
        return sql.scalar(int, rows) if rows else 0

    async def newest(self, account: int) -> int:
        """The number of the account's newest notification; 0 when it has none."""
        return sql.scalar(int, await self.database.read(NEWEST, (account,)))

    async def page_after(self, account: int, after: int, limit: int) -> Sequence[StoredNotification]:
        """Up to `limit` of the account's notifications with numbers above `after`, oldest first."""
        return [_notification(row) for row in await self.database.read(PAGE_AFTER, (account, after, limit))]

    async def arrivals(self, positions: models.Positions, limit: int) -> Sequence[models.Arrival]:
        """Up to `limit` notifications beyond an account's position, oldest first, without read state."""
        asked = orjson.dumps(positions, option=orjson.OPT_NON_STR_KEYS).decode()
        rows = await self.database.read(ARRIVALS, (asked, limit))
        return [models.Arrival(_notification(row[1:]), orjson.loads(row[0])) for row in rows]

    @sql.transaction(turns=sql.always(sql.Turns((TURN_OF_FIGURES,))))
    def mark_read(self, account: int, sendings: Sequence[int], now_ms: int, by: ReadBy) -> Transaction[int]:
        """Mark unread notifications of the account as read and count them; returns how many."""
        asked, is_bulk = orjson.dumps(sendings).decode(), by is ReadBy.BULK
        rows = yield sql.Statement(MARK_READ, (-now_ms if is_bulk else now_ms, account, asked))
        marked = orjson.dumps([sending for (sending,) in rows]).decode()
        for statement in COUNT_BULK_MARKED if is_bulk else COUNT_READ:
            if rows:
                yield sql.Statement(statement, (marked,))
        if rows:
            yield models.MarkedRead(account)
        return len(rows)


def _notification(row: sql.Row) -> StoredNotification:
    *content, bulk_marked, read_at_ms = row
    bulk = ReadBy.BULK if bulk_marked else None
    read_by = bulk if read_at_ms is None else ReadBy.USER
    return StoredNotification._make((*content, read_by, read_at_ms))


Value = TypeVar("Value")

Listener: TypeAlias = Callable[[AbstractSet[int]], None]
"""Called with the numbers of the accounts that have a new notification."""

_WAITING = "inbox"


class Arrivals:
    """The listeners of all inboxes, and their waiting readers: of an arrival, only they are woken."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._waiting: Counter[int] = Counter()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every delivery."""
        self._listeners.append(listener)

    async def wait_for(
        self, account: int, read: Callable[[], Awaitable[Value | None]], wait_seconds: float
    ) -> Value | None:
        """The result of `read`, now or after a delivery; None if there is none within `wait_seconds`."""
        self._waiting[account] += 1
        try:
            return await self._signals.wait_for(_key(account), read, wait_seconds)
        finally:
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]

    def arrived(self, accounts: Iterable[int]) -> None:
        """Call the listeners, and wake the readers of these accounts that wait."""
        numbers = set(accounts)  # with which an intersection takes as long as the smaller side
        for listener in self._listeners:
            listener(numbers)
        for account in numbers & self._waiting.keys():
            self._signals.touch(_key(account))


def _key(account: int) -> Key:
    return _WAITING, str(account)


class InboxReads:
    """Reads notifications of an account and marks them as read."""

    def __init__(self, store: InboxStore, arrivals: Arrivals, clock: Clock) -> None:
        self.store, self._arrivals, self._clock = store, arrivals, clock

    async def page(self, account: int, query: NotificationQuery, wait_seconds: int) -> Page:
        """The notifications of a query; if there are none, wait for new ones up to `wait_seconds`."""
        page = Page((), None, query.cursor)

        async def newest() -> Page | None:
            nonlocal page
            cursor, limit = query.cursor, query.limit
            found, highest = await self.store.page(account, query._replace(limit=limit + 1))
            shown = found[:limit]
            top = cursor.top if cursor.before is not None else max(cursor.since, highest)
            following = None
            if len(found) > limit:
                following = models.Cursor(cursor.since, shown[-1].sending, top)
            page = Page(shown, following, models.Cursor(top, None, top))
            return page if page.notifications else None

        if not wait_seconds:
            await newest()
        else:
            await self._arrivals.wait_for(account, newest, wait_seconds)
        return page

    async def mark_read(self, account: int, sendings: Sequence[int], by: ReadBy = ReadBy.USER) -> int:
        """Mark unread notifications as read; returns how many. Only reads by the user count in the rate."""
        return await self.store.mark_read(account, sendings, self._clock.now_ms(), by)
