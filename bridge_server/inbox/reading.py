"""An account reads its inbox: pages, long polls, marking as read."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

from bridge_server.inbox.models import Cursor, NotificationQuery, Overview, Page, ReadBy
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Key, Signals

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
        """Mark unread notifications as read; returns how many. Only reads by the user count in the rate."""
        return await self._store.mark_read(account, sendings, self._clock.now_ms(), by)

    async def overview(self, account: int) -> Overview:
        """The account's subscriptions with their numbers of unread notifications."""
        return await self._store.overview(account)

    async def _page(self, account: int, query: NotificationQuery) -> Page:
        cursor, limit = query.cursor, query.limit
        one_more = query._replace(limit=limit + 1)
        found, newest = await self._store.page(account, one_more)
        shown = found[:limit]
        top = cursor.top if cursor.before is not None else max(cursor.since, newest)
        following = None
        if len(found) > limit:
            following = Cursor(cursor.since, shown[-1].sending, top)
        return Page(shown, following, Cursor(top, None, top))
