"""A semaphore with places that are reserved for keys that release them quickly."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

_REMEMBERED = 10_000


class ReservedSemaphore:
    """`total` places, of which `kept` are only for keys whose last use went well.

    Places are given in the order of the requests. `note` stores whether the last use of a key went well; the
    most recently used keys are remembered.
    """

    def __init__(self, total: int, kept: int) -> None:
        self._all = asyncio.Semaphore(total)
        self._open = asyncio.Semaphore(total - kept)
        self._went_well: OrderedDict[str, bool] = OrderedDict()

    def went_well(self, key: str) -> bool | None:
        """Whether the last use of the key went well; None if that is not known."""
        return self._went_well.get(key)

    def note(self, key: str, well: bool) -> None:
        """Remember whether the last use of the key went well."""
        self._went_well[key] = well
        self._went_well.move_to_end(key)
        if len(self._went_well) > _REMEMBERED:
            self._went_well.popitem(last=False)

    async def take(self, key: str) -> Callable[[], None]:
        """Wait for a place; returns a function that releases it, to be called once."""
        if self._went_well.get(key):
            await self._all.acquire()
            return self._all.release
        await self._open.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            self._open.release()
            raise
        return self._release_both

    def _release_both(self) -> None:
        self._all.release()
        self._open.release()
