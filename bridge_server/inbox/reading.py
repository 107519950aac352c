"""Reading of an inbox: pages of notifications, long polls, marking as read."""

from collections.abc import Sequence

from bridge_server.inbox.arrivals import Arrivals
from bridge_server.inbox.models import Cursor, NotificationQuery, Page, Reader
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.clock import Clock


class InboxReads:
    """Reads notifications of an account and marks them as read."""

    def __init__(self, store: InboxStore, arrivals: Arrivals, clock: Clock) -> None:
        self._store = store
        self._arrivals = arrivals
        self._clock = clock

    async def page(self, reader: Reader, query: NotificationQuery, wait_seconds: int) -> Page:
        """The notifications of a query; if there are none, wait for new ones up to `wait_seconds`."""
        page = Page((), None, query.cursor)

        async def look() -> Page | None:
            nonlocal page
            page = await self._page(reader, query)
            return page if page.notifications else None

        if not wait_seconds:
            await look()
        else:
            await self._arrivals.wait_for(reader.number, look, wait_seconds)
        return page

    async def mark_read(self, reader: Reader, sendings: Sequence[int]) -> int:
        """Mark unread notifications of the account as read; returns how many were marked."""
        return await self._store.mark_read(reader.number, sendings, self._clock.now_ms())

    async def _page(self, reader: Reader, query: NotificationQuery) -> Page:
        cursor, limit = query.cursor, query.limit
        one_more = NotificationQuery(query.filters, cursor, limit + 1)
        found, newest = await self._store.page(reader.number, one_more)
        shown = found[:limit]
        top = cursor.top if cursor.before is not None else max(cursor.since, newest)
        following = None
        if len(found) > limit:
            following = Cursor(cursor.since, shown[-1].sending, top)
        return Page(shown, following, Cursor(top, None, top))
