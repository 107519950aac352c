"""What the outbox asks of storage. Every method that writes is one transaction."""

from collections.abc import Sequence
from typing import Protocol

from bridge_server.outbox.models import Backlog, DueMessage


class OutboxStore(Protocol):
    """The messages that are owed, and the dead letters. Times are milliseconds since the Unix epoch.

    All methods raise `UnavailableError` when the database cannot serve now.
    """

    async def backlog(self) -> list[Backlog]:
        """One entry for each destination that is owed something, due or not yet."""
        ...

    async def next_messages(self, destination: str, limit: int) -> list[DueMessage]:
        """The messages that are due first, due or not yet, in the order of their time."""
        ...

    async def delete_delivered(self, messages: Sequence[DueMessage], now_ms: int) -> int:
        """Forget messages that receivers took; the devices that they were for have been reached.

        Returns how many were still owed: those of a device that was removed meanwhile are not.
        """
        ...

    async def postpone(self, message: DueMessage, next_attempt_at_ms: int, error: str, now_ms: int) -> None:
        """Record a failed attempt and when the next one is due."""
        ...

    async def bury(self, message: DueMessage, died_at_ms: int, error: str) -> int:
        """Record the last attempt and keep the message as a dead letter; 0 if it was owed no more, else 1."""
        ...

    async def count_dead_letters(self) -> int:
        """How many dead letters are kept."""
        ...

    async def sweep(self, died_before_ms: int) -> int:
        """Delete a slice of the dead letters that are older; returns how many, 0 when none is left."""
        ...
