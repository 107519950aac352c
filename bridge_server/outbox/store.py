"""What the outbox asks of storage. Every method that writes is one transaction."""

from collections.abc import Sequence
from typing import Protocol

from bridge_server.outbox.models import Backlog, DueMessage, Queue


class OutboxStore(Protocol):
    """The messages that are owed, and the dead letters. Times are milliseconds since the Unix epoch.

    Every change of how many there are is announced with the commit that makes it: `outbox` for a message that
    was added, `outbox-owed` and `outbox-dead` for how many more or fewer, `outbox-counted` for both figures.
    All methods raise `UnavailableError` when the database cannot serve now.
    """

    async def backlog(self, now_ms: int, after: Queue, limit: int) -> list[Backlog]:
        """The queues that follow this one in their order and are owed something, due or not yet."""
        ...

    async def next_messages(self, queue: Queue, now_ms: int, limit: int) -> list[DueMessage]:
        """The messages that are due: those that were tried least first, each sort in the order of time."""
        ...

    async def next_due_ms(self, queue: Queue, now_ms: int) -> int | None:
        """When the first message becomes due that is not yet; None when there is no such."""
        ...

    async def delete_delivered(
        self, messages: Sequence[DueMessage], now_ms: int, answering: Sequence[str]
    ) -> None:
        """Forget messages that receivers took; the devices that they were for have been reached.

        Remember that these hosts have answered.
        """
        ...

    async def postpone(
        self, message: DueMessage, next_attempt_at_ms: int, error: str, now_ms: int, silent: str | None
    ) -> None:
        """Record a failed attempt and when the next one is due.

        Remember no longer that the `silent` host has answered.
        """
        ...

    async def bury(self, message: DueMessage, died_at_ms: int, error: str, silent: str | None) -> None:
        """Record the last attempt and keep the message as a dead letter, unless it was owed no more."""
        ...

    async def count(self) -> None:
        """Have announced how many messages are owed and how many dead letters are kept."""
        ...

    async def answering_hosts(self, limit: int) -> list[tuple[str, int]]:
        """The hosts that answered last and when, latest first."""
        ...

    async def sweep(self, died_before_ms: int, answered_before_ms: int, host_limit: int) -> int:
        """Delete a slice of the dead letters that are older, and of the hosts that answered longer ago or are
        too many; returns how many, 0 when none is left.
        """
        ...
