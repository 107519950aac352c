"""A round through all queues of the outbox that have messages, page by page."""

from collections.abc import Callable, Iterable

from bridge_server.outbox.models import PendingQueue, Queue
from bridge_server.outbox.store import OutboxStore

_PAGE = 1_000
_FIRST = Queue("", "")


class QueueRound:
    """A round that is broken off is continued by the next one, so that every queue has its turn."""

    def __init__(self, store: OutboxStore) -> None:
        self._store = store
        self._after = _FIRST

    async def go(self, now_ms: int, plan: Callable[[Iterable[PendingQueue]], bool]) -> None:
        """Hand over each page of queues, as of this time, until all were seen or `plan` returns False."""
        begin = after = self._after
        has_wrapped = begin == _FIRST
        self._after = _FIRST
        while not has_wrapped or begin == _FIRST or after < begin:
            page = await self._store.pending_queues(now_ms, after, _PAGE)
            if not plan(page):
                self._after = after
                return
            if len(page) == _PAGE:
                after = page[-1].claimant.queue
            elif has_wrapped:
                return
            else:
                has_wrapped, after = True, _FIRST
