"""What the room needs of a store. One method is one transaction, or one read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.pubsub.errors import QueueFullError
from bridge_server.pubsub.models import Changes, Message, QueueLimits, Topic


class Allowance(Protocol):
    """How many bytes of notices an address may cause; None is exempt."""

    def covers(self, address: str | None, size_bytes: int) -> bool:
        """Whether there is so much left. Any thread may ask."""
        ...

    def pay(self, address: str | None, size_bytes: int) -> None:
        """So much has been stored."""
        ...


class TopicStore(Protocol):
    """The messages that wait. What has expired at `now_ms` is as if it were not there."""

    async def newest(self) -> int:
        """The greatest number of a message there is, or 0."""
        ...

    async def waiting(self, topic: Topic, now_ms: int) -> Sequence[Message]:
        """The topic's messages, oldest first."""
        ...

    async def apply(
        self,
        changes: Changes,
        now_ms: int,
        limits: QueueLimits,
        notice: Callable[[Topic, str | None, str], OutgoingMessage],
    ) -> Mapping[int, QueueFullError]:
        """Store, then delete, and queue a notice to each webhook of what was announced; all or nothing.

        `notice` is given the topic, the address that the message counts to, and the webhook.

        Returns the numbers of those that were not stored, and why.
        """
        ...

    async def sweep(self, now_ms: int, limit: int) -> int:
        """Delete at most `limit` messages that have expired; returns how many."""
        ...
