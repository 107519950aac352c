"""Sent notifications with their outcomes, and sending for a project."""

import re
from collections.abc import Sequence
from typing import Annotated

from aiohttp import web

from bridge_server.admin.rows import ANY_ID, AdminRows, read_after, read_choice, read_place, wanted_page
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none, spell_day
from bridge_server.notify import history, wire
from bridge_server.notify.history import DeliveryOutcome, HistoryStore, OutcomeCursor, PastNotification
from bridge_server.notify.models import NotificationNotFoundError
from bridge_server.notify.routes import AUDIENCE_EXAMPLE, DRY_RUN_QUERY
from bridge_server.notify.service import Audiences
from bridge_server.notify.wire import AudienceOutcomeAnswer
from bridge_server.projects.models import ProjectId, ProjectNotFoundError, ReadFigures
from bridge_server.projects.service import Analytics
from bridge_server.web import bodies, prefer, routes, shapes

_ACCOUNT_PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)

Day = Annotated[str, shapes.text("2027-01-15", format="date")]


class ReadFiguresAnswer(shapes.TypedDict):
    """Notifications that were sent, and how many of them were read. The read rate leaves
    out bulk-marked ones.
    """

    sent: shapes.Count
    read: shapes.Count
    bulk_marked: shapes.Count
    read_rate: shapes.Rate | None


class DayFiguresAnswer(ReadFiguresAnswer):
    """The figures of a day."""

    day: Day


class TypeFiguresAnswer(ReadFiguresAnswer):
    """The figures of a type on one day."""

    type_id: shapes.TypeId


class TypeAnalyticsAnswer(shapes.TypedDict):
    """The figures of a type, and of each day."""

    type_id: shapes.TypeId
    total: ReadFiguresAnswer
    days: list[DayFiguresAnswer]


class DayAnalyticsAnswer(DayFiguresAnswer):
    """The figures of a day, and of each type."""

    types: list[TypeFiguresAnswer]


_From = shapes.TypedDict("_From", {"project_id": shapes.ProjectId, "from": Day})


class ProjectAnalyticsAnswer(_From):
    """Notifications that were sent in a period, and their reads."""

    to: Day
    total: ReadFiguresAnswer
    types: list[TypeAnalyticsAnswer]
    by_day: list[DayAnalyticsAnswer]


def analytics_fields(analytics: Analytics) -> ProjectAnalyticsAnswer:
    return {
        "project_id": analytics.project_id,
        "from": spell_day(analytics.period.first_day),
        "to": spell_day(analytics.period.last_day),
        "total": figures_fields(analytics.total),
        "types": [
            {
                "type_id": kind.type_id,
                "total": figures_fields(kind.total),
                "days": [{"day": spell_day(day.day), **figures_fields(day.figures)} for day in kind.days],
            }
            for kind in analytics.types
        ],
        "by_day": [
            {
                "day": spell_day(day.day),
                **figures_fields(day.total),
                "types": [{"type_id": kind.type_id, **figures_fields(kind.figures)} for kind in day.types],
            }
            for day in analytics.by_day
        ],
    }


def figures_fields(figures: ReadFigures | history.NotificationFigures) -> ReadFiguresAnswer:
    """Counts and the read rate, which is null if no notification counts."""
    return {
        "sent": figures.sent,
        "read": figures.read,
        "bulk_marked": figures.bulk_marked,
        "read_rate": figures.read_rate,
    }


class NotificationFiguresAnswer(ReadFiguresAnswer):
    """How many accounts have got a notification, read it, or missed it."""

    rate_limited: shapes.Count
    type_not_subscribed: shapes.Count


class PastNotificationAnswer(shapes.TypedDict):
    """A notification that was sent."""

    number: Annotated[int, shapes.count(42)]
    sent_at: shapes.Moment | None
    type: shapes.TypeId
    title: Annotated[str, shapes.text("ETH is up")]
    notification_id: Annotated[str, shapes.text("eth-4000")] | None
    figures: NotificationFiguresAnswer


class PastNotificationsAnswer(shapes.TypedDict):
    """A page of notifications, newest first."""

    notifications: list[PastNotificationAnswer]
    next: shapes.NextPage | None


class OutcomeMomentsAnswer(shapes.TypedDict):
    """The outcome of a notification for an account, and its time."""

    outcome: DeliveryOutcome
    at: shapes.Moment
    read_at: shapes.Moment | None
    limited_until: shapes.Moment | None


class AccountOutcomeAnswer(OutcomeMomentsAnswer):
    """The outcome of a notification for this account."""

    account: shapes.Account


class NotificationDetailsAnswer(PastNotificationAnswer):
    """A notification with its content, and a page of its accounts."""

    body: Annotated[str, shapes.text("1 ETH costs 4,000 USD.")]
    url: Annotated[str, shapes.text("https://app.example.org/eth")] | None
    accounts: list[AccountOutcomeAnswer]
    next: shapes.NextPage | None


def read_account_place(after: str) -> OutcomeCursor:
    """Read the last place of the page of accounts before. Raises InvalidInputError."""
    found = read_place(after, _ACCOUNT_PLACE)
    return OutcomeCursor() if found is None else OutcomeCursor(int(found[1]), int(found[2]))


def notification_page_fields(found: Sequence[PastNotification], limit: int) -> PastNotificationsAnswer:
    """A page of at most `limit` notifications. `found` has one more if another page follows."""
    page = found[:limit]
    return {
        "notifications": [_listed_fields(one) for one in page],
        "next": str(page[-1].number) if len(found) > limit else None,
    }


def outcome_page_fields(found: PastNotification, page: history.OutcomePage) -> NotificationDetailsAnswer:
    content = found.notification
    return {
        **_listed_fields(found),
        "body": content.body,
        "url": content.url,
        "accounts": [{"account": each.account, **outcome_moments(each)} for each in page.outcomes],
        "next": None if page.next is None else f"{page.next.sending}.{page.next.account}",
    }


def outcome_moments(outcome: history.AccountOutcome) -> OutcomeMomentsAnswer:
    """An outcome and its times, without the account."""
    return {
        "outcome": outcome.outcome,
        "at": rfc3339(outcome.at_ms),
        "read_at": rfc3339_or_none(outcome.read_at_ms),
        "limited_until": rfc3339_or_none(outcome.retry_at_ms),
    }


def _listed_fields(past: PastNotification) -> PastNotificationAnswer:
    figures = past.figures
    return {
        "number": past.number,
        "sent_at": rfc3339_or_none(past.created_at_ms),
        "type": past.notification.type_id,
        "title": past.notification.title,
        "notification_id": past.notification_id,
        "figures": {
            **figures_fields(figures),
            "rate_limited": figures.rate_limited,
            "type_not_subscribed": figures.type_not_subscribed,
        },
    }


class NotificationAdmin:
    """One method per endpoint."""

    def __init__(self, history: HistoryStore, audiences: Audiences) -> None:
        self._history, self._audiences = history, audiences

    async def notifications(self, request: web.Request) -> PastNotificationsAnswer:
        """The notifications of a project with their figures, newest first."""
        after, limit = wanted_page(request)
        found = await self._history.notifications(_project_id(request), read_after(after), limit + 1)
        return notification_page_fields(found, limit)

    async def notification(self, request: web.Request) -> NotificationDetailsAnswer:
        """Its content, and its accounts with the outcome of each. Accounts that missed it come first. A page
        may be short, or empty, although `next` says that more may follow.
        """
        after, limit = wanted_page(request)
        outcome = read_choice("outcome", request.query.get("outcome"), DeliveryOutcome)
        place, number = read_account_place(after), int(request.match_info["number"])
        found, page = await self._history.outcomes(_project_id(request), number, outcome, place, limit)
        return outcome_page_fields(found, page)

    async def notify(self, request: web.Request) -> AudienceOutcomeAnswer:
        """`audience` is `"all"`, `{"type": ...}` or `{"accounts": [...]}`. A call sends to at most 500
        accounts; it is repeated with `after` set to `next` until that is null. For an audience without
        accounts a `notification_id` is required, with which nobody is sent to twice.
        """
        is_dry_run = prefer.wanted_dry_run(request)
        wanted = wire.read_audience_request(await bodies.json_object(request), is_dry_run)
        outcome = await self._audiences.notify(_project_id(request), wanted, is_dry_run)
        return wire.audience_outcome_fields(outcome)


def _project_id(request: web.Request) -> ProjectId:
    return ProjectId(request.match_info["project_id"])


_PROJECT = f"/admin/projects/{{project_id:{ANY_ID}}}"
_NOTIFICATIONS = f"{_PROJECT}/notifications"
_NUMBER = routes.Parameter("number", "The number of a notification.", place="path", example="1")
_OUTCOME = routes.Parameter("outcome", "Only accounts with this outcome.", {"enum": [*DeliveryOutcome]})


def notification_routes(notifications: NotificationAdmin, rows: AdminRows) -> tuple[routes.Route, ...]:
    """The notifications of a project, and sending another one."""
    rows = rows.under("Projects")
    return (
        rows.read(_NOTIFICATIONS, "notifications", notifications.notifications,
                  "List notifications", "A page.",
                  parameters=shapes.page_parameters(), problems=(ProjectNotFoundError,)),
        rows.read(f"{_NOTIFICATIONS}/{{number:[0-9]{{1,18}}}}", "notification", notifications.notification,
                  "Show a notification", "The notification, with a page of accounts.",
                  parameters=(_NUMBER, _OUTCOME, *shapes.page_parameters()),
                  problems=(ProjectNotFoundError, NotificationNotFoundError)),
        rows.write("POST", f"{_PROJECT}/notify", "operator-notify", notifications.notify,
                   "Send a notification to an audience", "The outcome for each account.",
                   body=wire.AudienceNotifyShape, body_example=AUDIENCE_EXAMPLE, parameters=(DRY_RUN_QUERY,),
                   problems=(ProjectNotFoundError,)),
    )  # fmt: skip
