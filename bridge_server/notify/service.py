"""Rules of the notification service (docs/protocol.md, A)."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.values import dataclass
from bridge_server.notify import models
from bridge_server.notify.models import AudienceOutcome, Failures, NotifyRequest, Sender, SentNotification
from bridge_server.notify.store import TYPE, NotifyStore, SendingLimits, find_sending
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.projects.models import Project, Publisher, TypeId
from bridge_server.projects.store import COUNT_SUBSCRIBERS, find_types
from bridge_server.storage.database import Database, Row, Statement, Transaction, reading, scalar

DEVICE = Purpose("device")
"""The purpose of a notice to an account's device: its subject is the project that has sent it."""

_LISTING_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class NotificationLifetimes:
    """How long a notification is kept after its read or its sending, and an account that it missed."""

    read_kept_ms: int
    unread_kept_ms: int
    missed_kept_ms: int


class Notifications:
    """Notifications of projects. A method that changes something returns when the change is on disk."""

    def __init__(
        self, store: NotifyStore, clock: Clock, limits: SendingLimits, lifetimes: NotificationLifetimes
    ) -> None:
        self.store, self._clock = store, clock
        self._limits, self._lifetimes = limits, lifetimes
        self.outcomes: Counter[str] = Counter()
        """The number of accounts of calls since the start, by outcome."""

    async def notify(self, sender: Sender, request: NotifyRequest, is_dry_run: bool = False) -> Failures:
        """Send; returns the accounts without a delivery, with the reason. A dry run changes nothing.
        Raises UnknownTypeError, NotAuthenticatedError.
        """
        now_us = self._clock.now_us()
        if is_dry_run:
            return await self.store.rehearse(sender, request, self._limits, now_us)
        failures = await self.store.send(sender, request, self._limits, now_us, _notice_message)
        self.outcomes.update(failure.reason.value for failure in failures.values())
        return failures

    async def mark_all_as_read(self, publisher: Publisher) -> int:
        """Mark every notification as read; returns how many were unread. Raises NotAuthenticatedError."""
        return await self.store.mark_all_as_read(publisher, self._clock.now_ms())

    async def listing(self, project: Project) -> AsyncGenerator[bytes]:
        """Every subscribed account in order, page by page, as JSON strings without the outer quotes.
        Raises ProjectNotFoundError.
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
        return asyncio.create_task(self.store.listing_page(project, after, _LISTING_PAGE))

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the notifications past their time and of full buckets; returns how many rows."""
        kept = self._lifetimes
        before = models.Outdated(
            now_ms - kept.read_kept_ms, now_ms - kept.unread_kept_ms, now_ms - kept.missed_kept_ms
        )
        return await self.store.sweep(now_ms, before)


def _notice_message(sent: SentNotification, device: models.DeviceOfRecipient) -> OutgoingMessage:
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


# Notifications to an audience: some accounts, or call by call all subscribers of a project or of a type.

EVERYBODY = """
SELECT account_id, account_key FROM subscriptions
WHERE project = ? AND account_id > ? ORDER BY account_id LIMIT ?
"""
# The end of the stretch of subscribers that is searched for subscribers of a type, which may be few.
END = """
SELECT account_id FROM subscriptions WHERE project = ? AND account_id > ? ORDER BY account_id LIMIT 1 OFFSET ?
"""
OF_TYPE = """
SELECT subscriptions.account_id, subscriptions.account_key
FROM subscriptions CROSS JOIN type_set_members
    ON type_set_members.type = ? AND type_set_members.type_set = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_id > ? AND subscriptions.account_id <= ?
ORDER BY subscriptions.account_id LIMIT ?
"""
COUNT_OF_TYPE = """
SELECT coalesce(sum(type_sets.subscribers), 0)
FROM type_set_members JOIN type_sets ON type_sets.id = type_set_members.type_set
WHERE type_set_members.type = ?
"""

_AT_ONCE = 500  # the most accounts of one call
_SEARCHED = 5_000  # the most rows that are searched at once for a type: a page may be short, or empty
_AFTER_ALL = "~"  # no account id contains this character or a later one of Unicode


class Audiences:
    """Sends for an app's backend and for the operator, by the rules and limits of every notification."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self.database, self._notifications = database, notifications

    @reading
    def count(self, sender: Sender, type_id: TypeId | None) -> Transaction[int]:
        """The number of subscribers: of all, or of the subscribers of a type. Raises what `page` raises."""
        project = yield from find_sending(sender)
        if type_id is None:
            return scalar(int, (yield Statement(COUNT_SUBSCRIBERS, (project.number,))))
        number = yield from _type_number(project, type_id)
        return scalar(int, (yield Statement(COUNT_OF_TYPE, (number,))))

    @reading
    def page(
        self, sender: Sender, type_id: TypeId | None, after: str, limit: int
    ) -> Transaction[tuple[dict[str, str], str | None]]:
        """Up to `limit` subscribers that follow `after`, as account keys by account id; and the account id
        that the next page follows, None if this is the last one. Raises UnknownTypeError,
        ProjectNotFoundError, NotAuthenticatedError.
        """
        project = yield from find_sending(sender)
        if type_id is None:
            rows = yield Statement(EVERYBODY, (project.number, after, limit + 1))
            return _page(rows, limit, None)
        number = yield from _type_number(project, type_id)
        ends = yield Statement(END, (project.number, after, _SEARCHED - 1))
        end = ends[0][0] if ends else None
        stretch = (project.number, after, _AFTER_ALL if end is None else end)
        rows = yield Statement(OF_TYPE, (number, *stretch, limit + 1))
        return _page(rows, limit, end)

    async def notify(
        self, sender: Sender, wanted: models.AudienceRequest, is_dry_run: bool
    ) -> AudienceOutcome:
        """Send to the next 500 of the audience. Raises what `page` raises."""
        audience, total = wanted.audience, None
        if isinstance(audience, models.SubscriberAudience):
            if not wanted.after:
                total = await self.count(sender, audience.type_id)
            keys, following = await self.page(sender, audience.type_id, wanted.after, _AT_ONCE)
        else:
            keys, following, total = dict(audience), None, len(audience)
        request = NotifyRequest(wanted.notification, wanted.notification_id, keys)
        failures = await self._notifications.notify(sender, request, is_dry_run)
        return AudienceOutcome(keys, failures, following, total)


def _page(rows: list[Row], limit: int, end: str | None) -> tuple[dict[str, str], str | None]:
    shown: dict[str, str] = dict(rows[:limit])
    return shown, rows[limit - 1][0] if len(rows) > limit else end


def _type_number(project: Project, type_id: TypeId) -> Transaction[int]:
    rows = yield Statement(TYPE, (project.number, type_id))
    if not rows:
        known = [kind.type_id for _, kind in (yield from find_types(project))]
        raise models.UnknownTypeError(known, "#/audience/type")
    number: int = rows[0][0]
    return number
