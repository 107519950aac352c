"""Reading of an inbox: pages of notifications, long polls, marking as read."""

from collections.abc import Sequence

from bridge_server.inbox.arrivals import Arrivals
from bridge_server.inbox.models import Cursor, NotificationQuery, Page, ReadBy
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.clock import Clock


class InboxReads:
    """Reads notifications of an account and marks them as read."""

    def __init__(self, store: InboxStore, arrivals: Arrivals, clock: Clock) -> None:
        self._store = store
        self._arrivals = arrivals
        self._clock = clock

    async def page(self, account: int, query: NotificationQuery, wait_seconds: int) -> Page:
        """The notifications of a query; if there are none, wait for new ones up to `wait_seconds`."""
        page = Page((), None, query.cursor)

        async def look() -> Page | None:
            nonlocal page
            page = await self._page(account, query)
            return page if page.notifications else None

        if not wait_seconds:
            await look()
        else:
            await self._arrivals.wait_for(account, look, wait_seconds)
        return page

    async def number_of(self, account_key: str) -> int:
        """The number of an account, whose notifications the operator reads; 0 if it is unknown."""
        return await self._store.number_of(account_key)

    async def mark_read(self, account: int, sendings: Sequence[int], by: ReadBy = ReadBy.USER) -> int:
        """Mark unread notifications of the account as read; returns how many were marked.

        Only what its user reads counts in the read rate.
        """
        return await self._store.mark_read(account, sendings, self._clock.now_ms(), by)

    async def _page(self, account: int, query: NotificationQuery) -> Page:
        cursor, limit = query.cursor, query.limit
        one_more = NotificationQuery(query.filters, cursor, limit + 1)
        found, newest = await self._store.page(account, one_more)
        shown = found[:limit]
        top = cursor.top if cursor.before is not None else max(cursor.since, newest)
        following = None
        if len(found) > limit:
            following = Cursor(cursor.since, shown[-1].sending, top)
        return Page(shown, following, Cursor(top, None, top))
