"""Notifications to an audience: some accounts, or call by call all subscribers of a project or of a type."""

from collections.abc import Generator

from bridge_server.notify.models import (
    AudienceOutcome,
    AudienceRequest,
    NotifyRequest,
    Sender,
    SubscriberAudience,
    UnknownAudienceError,
)
from bridge_server.notify.service import Notifications
from bridge_server.notify.store import TYPE, find_sending
from bridge_server.projects.models import Project, TypeId
from bridge_server.projects.store import COUNT_SUBSCRIBERS, find_types
from bridge_server.storage.database import Database, Row, Statement, Step, Transaction, reading, scalar

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

_AT_ONCE = 500
"""The most accounts of one call."""
_SEARCHED = 5_000
"""The most rows that are searched at once for subscribers of a type: a page may be short, or empty."""
_AFTER_ALL = "~"
"""No account id contains this character or a later one of Unicode."""


class AudienceStore:
    """Reads subscribers in the order of their account ids."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def count(self, sender: Sender, type_id: TypeId | None) -> Transaction[int]:
        """The number of subscribers, or of those of a type. Raises what `page` raises."""
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
        that the next page follows, None if this is the last one. Raises UnknownAudienceError,
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


class Audiences:
    """Sends for an app's backend and for the operator, by the rules and limits of every notification."""

    def __init__(self, store: AudienceStore, notifications: Notifications) -> None:
        self._store = store
        self._notifications = notifications

    async def notify(self, sender: Sender, wanted: AudienceRequest, is_dry_run: bool) -> AudienceOutcome:
        """Send to the next 500 of the audience. A dry run changes nothing.

        Raises UnknownTypeError, UnknownAudienceError; for a project that is deleted ProjectNotFoundError,
        and for its backend NotAuthenticatedError.
        """
        audience, total = wanted.audience, None
        if isinstance(audience, SubscriberAudience):
            if not wanted.after:
                total = await self._store.count(sender, audience.type_id)
            keys, following = await self._store.page(sender, audience.type_id, wanted.after, _AT_ONCE)
        else:
            keys, following, total = dict(audience), None, len(audience)
        request = NotifyRequest(wanted.notification, wanted.notification_id, keys)
        failures = await self._notifications.notify(sender, request, is_dry_run)
        return AudienceOutcome(keys, failures, following, total)


def _page(rows: list[Row], limit: int, end: str | None) -> tuple[dict[str, str], str | None]:
    shown: dict[str, str] = dict(rows[:limit])
    return shown, rows[limit - 1][0] if len(rows) > limit else end


def _type_number(project: Project, type_id: TypeId) -> Generator[Step, list[Row], int]:
    rows = yield Statement(TYPE, (project.number, type_id))
    if not rows:
        raise UnknownAudienceError([kind.type_id for _, kind in (yield from find_types(project))])
    number: int = rows[0][0]
    return number
