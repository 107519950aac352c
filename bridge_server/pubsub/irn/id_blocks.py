"""Ids of requests to clients: numbers from 10^9 to 2^53 that are given once in the server's life."""

from bridge_server.pubsub.irn.store import IrnStore

_FIRST, _END = 10**9, 2**53
_BLOCK_SIZE = 2**30


class IdBlocks:
    """Takes ids from blocks that the database has given away; the next block is taken long before this one
    ends.
    """

    def __init__(self, store: IrnStore) -> None:
        self._store = store
        self._next = self._end = self._following = 0
        self._taken: list[int] = []

    async def refill(self) -> None:
        """Have at least half a block. Raises UnavailableError."""
        if not self._end:
            self._next = await self._block()
            self._end = self._next + _BLOCK_SIZE
        if not self._following and self._end - self._next < _BLOCK_SIZE // 2:
            self._following = await self._block()

    def next(self) -> int:
        """An id that no client was ever sent."""
        if self._next == self._end:
            self._next, self._following = self._following, 0
            self._end = self._next + _BLOCK_SIZE
        self._next += 1
        return self._next - 1

    def is_foreign(self, request_id: int) -> bool:
        """Whether it may be an id that another process has given."""
        if not _FIRST <= request_id < _END:
            return False
        return not any(first <= request_id < first + _BLOCK_SIZE for first in self._taken)

    async def _block(self) -> int:
        first = _FIRST + (await self._store.take_id_block() - 1) * _BLOCK_SIZE
        self._taken.append(first)
        return first
