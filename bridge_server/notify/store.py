"""Notifications, their deliveries and the buckets that limit them in SQL."""

from collections.abc import Generator, Mapping

import orjson

from bridge_server.notify import sql
from bridge_server.notify.events import AllMarkedRead
from bridge_server.notify.missing import sweep_missed
from bridge_server.notify.models import Failures, Lookup, MessagesTo, NotifyRequest, Outdated, Sender
from bridge_server.notify.sending import SendingLimits, send_to, sorted_accounts
from bridge_server.projects.deleting import delete_sendings
from bridge_server.projects.errors import ProjectNotFoundError
from bridge_server.projects.models import Project, Publisher
from bridge_server.projects.store import find_project, find_publishing
from bridge_server.projects.turns import FIGURES, SENDINGS, turn_of_project
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Step,
    Transaction,
    Turns,
    adding_transaction,
    reading,
    scalar,
    transaction,
)
from bridge_server.storage.turns import sweeping

_SWEEP_SLICE = 500


def _turns_of_sender(sender: Sender, *_: object, **__: object) -> Turns:
    project_id = sender.project.project_id if isinstance(sender, Publisher) else sender
    return Turns((turn_of_project(project_id), SENDINGS), shared=(FIGURES,))


def _turns_of_publisher(publisher: Publisher, *_: object, **__: object) -> Turns:
    return Turns((turn_of_project(publisher.project.project_id), FIGURES))


class NotifyStore:
    """Durable notifications, with the buckets that limit them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @adding_transaction(turns=_turns_of_sender)
    def send(
        self,
        sender: Sender,
        request: NotifyRequest,
        limits: SendingLimits,
        now_us: int,
        messages_to: MessagesTo,
    ) -> Transaction[Failures]:
        """Deliver to every account that may be sent to, charge each, queue its devices: all or nothing.

        A known `notification_id` stands for the content of its first call; accounts that it has reached count
        as sent to and are charged nothing. Raises UnknownTypeError, and NotAuthenticatedError
        when the project or the secret is deleted.
        """
        project = yield from _sending_project(sender)
        return (yield from send_to(project, request, limits, now_us, messages_to))

    @reading
    def rehearse(
        self, sender: Sender, request: NotifyRequest, limits: SendingLimits, now_us: int
    ) -> Transaction[Failures]:
        """The failures that `send` would return now. Nothing is changed. Raises what `send` raises."""
        project = yield from _sending_project(sender)
        return (yield from sorted_accounts(project, request, limits, now_us)).failures

    @transaction(turns=_turns_of_publisher)
    def mark_all_as_read(self, publisher: Publisher, now_ms: int) -> Transaction[int]:
        """Mark every notification that the project has sent so far; returns how many were unread.

        Raises NotAuthenticatedError when the project or the secret is deleted.
        """
        project = yield from find_publishing(publisher)
        unread = scalar(int, (yield Statement(sql.COUNT_UNREAD, (project.number,))))
        if unread:
            yield Statement(sql.MARK_FIGURES, (project.number,))
        yield Statement(sql.MARK_THROUGH, (now_ms, project.number))
        yield AllMarkedRead()
        return unread

    async def lookup(self, project: Project, keys: Mapping[str, str]) -> Lookup:
        """The subscribers among the accounts, whose keys are given by their spelling."""
        asked = orjson.dumps(keys).decode()
        ((members, others),) = await self.database.read(sql.LOOKUP, (asked, project.number))
        return Lookup(members or b"", orjson.loads(others))

    async def listing_page(self, project: Project, after: str, limit: int) -> tuple[bytes, str | None]:
        """Up to `limit` subscribed accounts that follow `after`, as JSON strings without the outer
        quotation marks; and the last of them, or None when no others follow. Raises ProjectNotFoundError.
        """
        begin = (project.number, after)
        ((accounts, last, is_there),) = await self.database.read(
            sql.LISTING_PAGE, (project.number, *begin, limit - 1, *begin)
        )
        if not is_there:
            raise ProjectNotFoundError
        return accounts or b"", last

    @transaction(turns=sweeping("notifications", FIGURES))
    def sweep(self, now_ms: int, before: Outdated) -> Transaction[int]:
        """Delete a slice of the outdated rows, and of the full buckets. Returns how many rows."""
        buckets = yield from _sweep_buckets(now_ms * 1000)
        if buckets:
            return buckets
        read = scalar(int, (yield Statement(sql.SWEEP_READ, (before.read_ms, _SWEEP_SLICE))))
        marked_before = (-before.read_ms, _SWEEP_SLICE)
        read += scalar(int, (yield Statement(sql.SWEEP_MARKED_BY_OPERATOR, marked_before)))
        if read:
            return read
        missed = yield from sweep_missed(before.missed_ms, _SWEEP_SLICE)
        if missed:
            return missed
        ((old,),) = yield Statement(sql.OLD_SENDINGS, (before.sent_ms, _SWEEP_SLICE))
        deleted = yield from delete_sendings(old, _SWEEP_SLICE)
        if deleted:
            return deleted
        ((marked,),) = yield Statement(sql.BULK_MARKED_SENDINGS, (before.read_ms, _SWEEP_SLICE))
        return (yield from delete_sendings(marked, _SWEEP_SLICE))


def _sweep_buckets(now_us: int) -> Transaction[int]:
    full = scalar(int, (yield Statement(sql.SWEEP_FULL_BUCKETS, (now_us, now_us, _SWEEP_SLICE))))
    others = scalar(int, (yield Statement(sql.PUT_OFF_BUCKETS, (now_us, _SWEEP_SLICE))))
    return full + others


def _sending_project(sender: Sender) -> Generator[Step, list[Row], Project]:
    if isinstance(sender, Publisher):
        return (yield from find_publishing(sender))
    return (yield from find_project(sender))
