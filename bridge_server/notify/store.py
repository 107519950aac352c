"""What publishing needs of a store. One method is one transaction, or one read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.models import Devices, Failures, Lookup, NotifyRequest, Sent
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.models import Project, Publisher

MessagesTo: TypeAlias = Callable[[Sent, Devices], Sequence[OutgoingMessage]]
"""Writes what the devices of those who are sent to are told."""


class NotifyStore(Protocol):
    """Durable notifications, with the buckets that limit them."""

    async def send(
        self,
        publisher: Publisher,
        request: NotifyRequest,
        limit: Limit,
        now_us: int,
        messages_to: MessagesTo,
    ) -> Failures:
        """Deliver to every account that may be sent to, charge each, queue its devices: all or nothing.

        `limit` applies to each account unless the project has its own.

        A `notification_id` that is known stands for what it was first sent with; accounts that it has
        reached count as sent to and are charged nothing. Raises UnknownTypeError, and NotAuthenticatedError
        when the project or the secret is there no more.
        """
        ...

    async def mark_all_as_read(self, publisher: Publisher, now_ms: int) -> int:
        """Mark every notification that the project has sent so far; returns how many were unread.

        Raises NotAuthenticatedError when the project or the secret is there no more.
        """
        ...

    async def lookup(self, project: Project, keys: Mapping[str, str]) -> Lookup:
        """The subscribers among the accounts, whose keys are given by their spelling."""
        ...

    async def listing_page(self, project: Project, after: str, limit: int) -> tuple[bytes, str | None]:
        """Up to `limit` subscribed accounts that follow `after`, as JSON strings without the outer
        quotation marks; and the last of them, or None when no others follow. Raises ProjectNotFoundError.
        """
        ...

    async def sweep(self, now_ms: int, read_before_ms: int, sent_before_ms: int) -> int:
        """Delete a slice of what need not be kept: notifications read or sent before these times, buckets
        that are full. Returns how many rows.
        """
        ...
