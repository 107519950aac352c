"""What an account has received: page by page, as it comes, and marked as read."""

from collections.abc import Sequence

from bridge_server.inbox.arrivals import Arrivals
from bridge_server.inbox.models import Cursor, Page, Question, Reader
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.clock import Clock


class Reading:
    """The rules of reading."""

    def __init__(self, store: InboxStore, arrivals: Arrivals, clock: Clock) -> None:
        self._store = store
        self._arrivals = arrivals
        self._clock = clock

    async def page(self, reader: Reader, question: Question, wait_seconds: int) -> Page:
        """The notifications that are asked for; if there are none, the next ones within `wait_seconds`."""
        page = Page((), None, question.cursor)

        async def look() -> Page | None:
            nonlocal page
            page = await self._page(reader, question)
            return page if page.notifications else None

        if not wait_seconds:
            await look()
        else:
            await self._arrivals.wait_for(reader.number, look, wait_seconds)
        return page

    async def mark_read(self, reader: Reader, sendings: Sequence[int]) -> int:
        """Mark those that are the reader's and unread; returns how many there were."""
        return await self._store.mark_read(reader.number, sendings, self._clock.now_ms())

    async def _page(self, reader: Reader, question: Question) -> Page:
        cursor, limit = question.cursor, question.limit
        one_more = Question(question.filters, cursor, limit + 1)
        found, newest = await self._store.page(reader.number, one_more)
        shown = found[:limit]
        top = cursor.top if cursor.before is not None else max(cursor.since, newest)
        following = None
        if len(found) > limit:
            following = Cursor(cursor.since, shown[-1].sending, top)
        return Page(shown, following, Cursor(top, None, top))
