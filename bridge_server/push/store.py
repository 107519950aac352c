"""What the push server needs of a store. One method is one transaction, or one read."""

from typing import Protocol

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.models import Registration, Topic


class PushStore(Protocol):
    """Durable registrations. What has expired at `now_ms` is as if it were not there."""

    async def register(
        self,
        registration: Registration,
        now_ms: int,
        expires_at_ms: int,
        *,
        own_webhook: str,
        is_own_bridge: bool,
        webhook_limit: int,
    ) -> None:
        """Store the registration instead of the one that the topic had.

        In the same transaction this server's own bridge is told to call `own_webhook` for the topic if it is
        the one that was named, and else to call it no longer. Raises TooManyWebhooksError.
        """
        ...

    async def registration(self, topic: Topic, now_ms: int) -> Registration | None:
        """Who is told of the topic."""
        ...

    async def unregister(self, topic: Topic, url: str, own_webhook: str) -> None:
        """Forget the registration if it still has this address, and what the own bridge was told of it."""
        ...

    async def queue(self, message: OutgoingMessage, now_ms: int) -> None:
        """Owe the message from now on."""
        ...

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of what has expired; returns how many rows."""
        ...
