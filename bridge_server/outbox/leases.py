"""The destinations to which this process may send: all of them, or the ones that it has leased.

A destination belongs to one process at a time, so that its order, its number of requests at once and its
pauses can be kept in memory.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol, TypeAlias

InUse: TypeAlias = Callable[[], Collection[str]]
"""The destinations whose messages are under way here, or that rest."""


class Leases(Protocol):
    """The destinations of this process. A delivery begins only while there is a tenure."""

    def tenure(self, destination: str) -> int:
        """The number of the time for which this process has the destination; 0 while it has not.

        Messages that were read under another number are out of date.
        """
        ...

    def is_elsewhere(self, destination: str) -> bool:
        """Whether another process had it at the last look, a moment ago."""
        ...

    def was_here(self, destination: str) -> bool:
        """Whether this process has the destination, or gave it up so lately that others may not know."""
        ...

    async def take(self, destination: str) -> bool:
        """Have the destination if no other process has it; returns whether this one has it."""
        ...

    async def look(self) -> None:
        """Read which destinations are elsewhere. Raises UnavailableError."""
        ...

    def ticks_to_recount(self) -> int:
        """The number of ticks between two searches for queues that no process sends."""
        ...

    def holding(self, in_use: InUse) -> AbstractAsyncContextManager[None]:
        """Keep destinations in use inside, and give up others; on leaving, all of them."""
        ...


class AllDestinations:
    """The leases of the only process: every destination, without an end."""

    def tenure(self, _: str) -> int:
        return 1

    def is_elsewhere(self, _: str) -> bool:
        return False

    def was_here(self, _: str) -> bool:
        return False

    async def take(self, _: str) -> bool:
        return True

    async def look(self) -> None:
        """Do nothing: there is no other process."""

    def ticks_to_recount(self) -> int:
        return 60

    def holding(self, _: InUse) -> AbstractAsyncContextManager[None]:
        return nullcontext()
