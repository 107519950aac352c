"""Rules of the notification service (docs/protocol.md, A)."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.values import dataclass
from bridge_server.notify.models import (
    DeviceOfRecipient,
    Devices,
    Failures,
    Lookup,
    NotifyRequest,
    Outdated,
    Sender,
    SentNotification,
)
from bridge_server.notify.store import NotifyStore, SendingLimits
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.projects.models import Project, Publisher

DEVICE = Purpose("device")
"""The purpose of a notice to an account's device: its subject is the project that has sent it."""

_LISTING_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class NotificationLifetimes:
    """How long notifications are kept: after they were read, at most after they were sent; and accounts that
    one has not reached, with the reason.
    """

    read_kept_ms: int
    unread_kept_ms: int
    missed_kept_ms: int


class Notifications:
    """Notifications of projects. A method that changes something returns when the change is on disk."""

    def __init__(
        self, store: NotifyStore, clock: Clock, limits: SendingLimits, lifetimes: NotificationLifetimes
    ) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._lifetimes = lifetimes
        self.outcomes: Counter[str] = Counter()
        """The number of accounts of calls since the start, by outcome."""

    async def notify(self, sender: Sender, request: NotifyRequest, is_dry_run: bool = False) -> Failures:
        """Send a notification; returns the accounts without a delivery, with the reason.

        A dry run returns what sending would return now, and changes nothing.

        Raises UnknownTypeError, and NotAuthenticatedError if the secret was revoked meanwhile.
        """
        now_us = self._clock.now_us()
        if is_dry_run:
            return await self._store.rehearse(sender, request, self._limits, now_us)
        failures = await self._store.send(sender, request, self._limits, now_us, _notice_messages)
        self.outcomes.update(failure.reason.value for failure in failures.values())
        return failures

    async def mark_all_as_read(self, publisher: Publisher) -> int:
        """Mark every notification of the project as read; returns how many were unread.

        Raises NotAuthenticatedError if the secret was revoked meanwhile.
        """
        return await self._store.mark_all_as_read(publisher, self._clock.now_ms())

    def lookup(self, publisher: Publisher, keys: Mapping[str, str]) -> Awaitable[Lookup]:
        """The subscribers among the accounts. The checksums of the account ids may be unchecked.

        Raises NotAuthenticatedError if the secret was revoked meanwhile.
        """
        return self._store.lookup(publisher, keys)

    async def listing(self, project: Project) -> AsyncGenerator[bytes]:
        """Every subscribed account in order, page by page, as JSON strings without the outer quotation marks.

        The next page is read while one is sent. Raises ProjectNotFoundError if the project is deleted.
        """
        after: str | None = ""
        reading = self._read_page(project, "")
        try:
            while after is not None:
                accounts, after = await reading
                if after is not None:
                    reading = self._read_page(project, after)
                if accounts:
                    yield accounts
        finally:
            reading.cancel()

    def _read_page(self, project: Project, after: str) -> asyncio.Task[tuple[bytes, str | None]]:
        return asyncio.create_task(self._store.listing_page(project, after, _LISTING_PAGE))

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the notifications past their time and of full buckets; returns how many rows."""
        kept = self._lifetimes
        before = Outdated(
            now_ms - kept.read_kept_ms, now_ms - kept.unread_kept_ms, now_ms - kept.missed_kept_ms
        )
        return await self._store.sweep(now_ms, before)


def _notice_messages(sent: SentNotification, devices: Devices) -> Sequence[OutgoingMessage]:
    return [_notice_message(sent, device) for device in devices]


def _notice_message(sent: SentNotification, device: DeviceOfRecipient) -> OutgoingMessage:
    """The message for one device. Its id is unique to the device, and does not change between attempts."""
    notice = {
        "event": "notification",
        "id": str(sent.number),
        "project_id": sent.project_id,
        "project_name": sent.project_name,
        "account": device.account,
        "type": sent.notification.type_id,
        "title": sent.notification.title,
        "body": sent.notification.body,
        "url": sent.notification.url,
        "sent_at": rfc3339(sent.sent_at_ms),
    }
    return OutgoingMessage(
        f"{device.device_id}.{sent.number}",
        device.url,
        orjson.dumps(notice),
        DEVICE,
        lane=device.lane,
        device_id=device.device_id,
        subject=sent.project_id,
    )
