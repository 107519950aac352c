"""What inboxes need of a store. One method is one transaction, or one read."""

from collections.abc import Sequence
from typing import Protocol

from bridge_server.inbox.models import (
    Arrival,
    Device,
    DeviceId,
    InboxNotification,
    NewDevice,
    Nonce,
    Overview,
    Positions,
    Question,
    Reader,
)
from bridge_server.kernel.caip10 import Account

SIGNED_OUT = "signed-out"
"""The kind of key that is touched when a token was ended; its id is the digest in hexadecimal."""


class SignInStore(Protocol):
    """Durable nonces and tokens. What has expired at `now_ms` is as if it were not there."""

    async def add_nonce(self, nonce: Nonce) -> None:
        """Store a nonce."""
        ...

    async def sign_in(
        self, nonce: str, account: Account, digest: bytes, expires_at_ms: int, now_ms: int
    ) -> None:
        """Use the nonce up and store the token's digest, or do neither. Raises NonceRefusedError."""
        ...

    async def reader(self, digest: bytes, now_ms: int) -> Reader | None:
        """Who has the token of this digest; None when nobody has."""
        ...

    async def sign_out(self, digest: bytes) -> None:
        """Remove the token and touch SIGNED_OUT."""
        ...

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of what has expired; returns how many rows."""
        ...


class InboxStore(Protocol):
    """What accounts are subscribed to and have received. Deleted projects do not appear."""

    async def overview(self, account: int) -> Overview:
        """The account's subscriptions, earliest first, and what else it has not read."""
        ...

    async def page(self, account: int, question: Question) -> tuple[Sequence[InboxNotification], int]:
        """Up to `limit` of the account's notifications, newest first, and the number of the newest that it
        has, whatever it is, at the same moment.
        """
        ...

    async def newest(self, account: int) -> int:
        """The number of the account's newest notification; 0 when it has none."""
        ...

    async def page_after(self, account: int, after: int, limit: int) -> Sequence[InboxNotification]:
        """Up to `limit` of the account's notifications that are later than `after`, oldest first."""
        ...

    async def arrivals(self, positions: Positions, limit: int) -> Sequence[Arrival]:
        """Up to `limit` notifications that came into any of these inboxes after its position, oldest first,
        each with all the accounts among them that it came to. Whether they were read is left out.
        """
        ...

    async def mark_read(self, account: int, sendings: Sequence[int], now_ms: int) -> int:
        """Mark those of the account's that are unread, and count them in the figures; returns how many."""
        ...


class DeviceStore(Protocol):
    """Durable devices."""

    async def devices(self, account: int) -> Sequence[Device]:
        """The account's devices, oldest first."""
        ...

    async def add(
        self, account: int, device_id: DeviceId, device: NewDevice, now_ms: int, limit: int
    ) -> Device:
        """Store a device under this id, or find the one that is the same. Raises TooManyDevicesError."""
        ...

    async def remove(self, account: int, device_id: DeviceId) -> None:
        """Delete a device and what is queued for it. Raises DeviceNotFoundError."""
        ...

    async def forget(self, device_id: DeviceId, address: str, message_id: str) -> None:
        """Delete a device, whoever's it is, if it is there and has this address.

        What is queued for it goes too, but for the message that found it dead, which is being settled.
        """
        ...
