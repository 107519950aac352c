"""The pages of sent notifications, of an account and its inbox, and of read rates by day."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from bridge_server.admin import notifications
from bridge_server.admin.accounts import AccountAdmin, AccountViewAnswer
from bridge_server.admin.notifications import analytics_fields
from bridge_server.admin.projects import read_account
from bridge_server.admin.rows import read_after, read_choice
from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, PagePath, View
from bridge_server.console.rendering import ProjectChoice, count_of
from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.store import InboxReads
from bridge_server.inbox.wire import page_fields, read_ids, read_query
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import spell_day
from bridge_server.kernel.values import dataclass
from bridge_server.notify.history import DeliveryOutcome, HistoryStore
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import ProjectId
from bridge_server.projects.service import Projects
from bridge_server.web.bodies import JsonObject

_NOTIFICATIONS = "/notifications"
_NOTIFICATION = f"{_NOTIFICATIONS}/{{project_id:[^/]{{1,128}}}}/{{number:[0-9]{{1,18}}}}"
_ACCOUNT = "/accounts"
_LIVE = ("notifications",)
_PAGE = 25

_INBOX = "/inbox"
_INBOX_PAGE = "25"
_INBOX_LIVE = ("notifications", "projects")


class NotificationsPage:
    """Views of notifications."""

    def __init__(self, choice: ProjectChoice, history: HistoryStore, accounts: AccountAdmin) -> None:
        self._choice, self._history, self._accounts = choice, history, accounts
        paths = (
            PagePath(_NOTIFICATIONS, self.show_all),
            PagePath(_NOTIFICATION, self.show),
            PagePath(_ACCOUNT, self.show_account),
        )
        self.page = ConsolePage("notifications", "Notifications", "Notifications", paths)

    async def show_all(self, asked: Asked) -> View:
        """The notifications of a project, newest first."""
        fields = await self._list(asked, asked.query.get("after", ""))
        return View("notifications/list.html", fields, _LIVE)

    async def show(self, asked: Asked) -> View:
        """One notification, and a page of its accounts with the outcome of each."""
        project_id, number = ProjectId(asked.names["project_id"]), int(asked.names["number"])
        outcome, after = asked.query.get("outcome", ""), asked.query.get("after", "")
        wanted = read_choice("outcome", outcome or None, DeliveryOutcome)
        place = notifications.read_account_place(after)
        found, page = await self._history.outcomes(project_id, number, wanted, place, _PAGE)
        fields = {
            **await self._list(asked, ""),
            "notification": notifications.outcome_page_fields(found, page),
            "outcome": outcome,
            "outcomes": [each.value for each in DeliveryOutcome],
            "is_first_page": not after,
        }
        return View("notifications/notification.html", fields, _LIVE)

    async def show_account(self, asked: Asked) -> View:
        """Why an account did not get a notification: in one project, or in all its projects."""
        project_id, account = asked.query.get("project_id", ""), asked.query.get("account", "").strip()
        found, wrong = await self._account(account, project_id)
        fields = {
            **await self._choice.fields(asked),
            "searched": account,
            "project_id": project_id,
            "account": found,
            "wrong": wrong,
        }
        return View("notifications/account.html", fields, _LIVE)

    async def _list(self, asked: Asked, after: str) -> dict[str, Any]:
        fields = {**await self._choice.fields(asked), "after": after}
        if fields["project"] is None:
            return {**fields, "notifications": [], "next": None}
        project_id = ProjectId(fields["project"]["project_id"])
        found = await self._history.notifications(project_id, read_after(after), _PAGE + 1)
        return {**fields, **notifications.notification_page_fields(found, _PAGE)}

    async def _account(self, account: str, project_id: str) -> tuple[AccountViewAnswer | None, str]:
        """The account's fields, or the failure of its spelling."""
        if not account:
            return None, ""
        try:
            read = read_account(account)
        except InvalidInputError as error:
            return None, error.detail
        return await self._accounts.of(read, project_id or None), ""


class InboxPreview:
    """The view of an inbox."""

    def __init__(self, inbox: InboxReads, accounts: AccountAdmin) -> None:
        self._inbox, self._accounts = inbox, accounts
        path = PagePath(_INBOX, self.show, {"mark-read": self.mark_read})
        self.page = ConsolePage("inbox-preview", "Inbox preview", "Notifications", (path,))

    async def show(self, asked: Asked) -> View:
        """A page of the notifications of an account."""
        searched = asked.query.get("account", "").strip()
        fields = {"searched": searched, "account": None, "wrong": "", "unread": asked.query.get("unread", "")}
        if searched:
            try:
                fields |= await self._fields(read_account(searched), asked)
            except InvalidInputError as error:
                fields["wrong"] = error.detail
        return View("inbox/inbox.html", fields, _INBOX_LIVE)

    async def mark_read(self, asked: Asked) -> Done:
        account = read_account(asked.query.get("account", ""))
        ids = read_ids(JsonObject({"ids": asked.form.get("ids", "").split()}, None))
        marked = await self._inbox.mark_read(await self._inbox.store.number_of(account.key), ids, ReadBy.BULK)
        place = f"{ROOT}{_INBOX}?account={quote(account.spelled, safe='')}"
        return Done(place, f"{count_of(marked)} marked as read. They do not count in the read rate.")

    async def _fields(self, account: Account, asked: Asked) -> dict[str, Any]:
        wanted = {name: asked.query[name] for name in ("unread", "after") if asked.query.get(name)}
        query = read_query({**wanted, "limit": _INBOX_PAGE})
        page = await self._inbox.page(await self._inbox.store.number_of(account.key), query, wait_seconds=0)
        return {
            "account": await self._accounts.of(account, None),
            "inbox": page_fields(page),
            "is_first_page": "after" not in wanted,
        }


MOST_CHARTS = 6  # the number of charts until types are chosen; the table has every type
_ANALYTICS = "/analytics"
_RANGES = {"7 days": 7, "30 days": 30, "90 days": 90, "a year": 365}


# Bars of read rates, one for each day, as the numbers of an SVG.

SLOT = 10  # the width of a day; the height of the drawing is 100, for percents
_BAR = 8
_LEAST_HEIGHT = 1.5  # of a bar: a day without reads differs from a day on which nothing was sent

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of a day, with a text for the pointer."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars of a period, the days on which something was sent, and all of it in a sentence."""

    title: str
    description: str
    width: int
    bars: Sequence[Bar]
    days: Sequence[Figures]
    total: Figures


def percent(rate: float | None) -> str:
    """The rate as a person reads it; a dash if nothing counts."""
    return "–" if rate is None else f"{rate * 100:.1f} %"


def _chart(title: str, days: Sequence[Figures], total: Figures) -> Chart:
    bars = []
    for place, day in enumerate(days):
        if day["sent"]:
            height = round(max(_LEAST_HEIGHT, 100 * (day["read_rate"] or 0)), 2)
            label = f"{day['day']}: {percent(day['read_rate'])}, {day['read']} of {day['sent']} read"
            bars.append(Bar(place * SLOT + (SLOT - _BAR) / 2, 100 - height, _BAR, height, label))
    described = (
        f"Read rate by day from {days[0]['day']} to {days[-1]['day']}: {percent(total['read_rate'])} in all, "
        f"{total['read']} of {total['sent']} read. The table below has the figures."
    )
    return Chart(title, described, len(days) * SLOT, bars, [day for day in days if day["sent"]], total)


class AnalyticsPage:
    """The view of a project's figures."""

    def __init__(self, choice: ProjectChoice, projects: Projects) -> None:
        self._choice, self._projects = choice, projects
        path = PagePath(_ANALYTICS, self.show)
        self.page = ConsolePage("analytics", "Analytics", "Notifications", (path,))

    async def show(self, asked: Asked) -> View:
        """The figures of a period, of all types or of one."""
        choice = await self._choice.fields(asked)
        if choice["project"] is None:
            return View("analytics/analytics.html", {**choice, "analytics": None})
        project_id, chosen, wrong = choice["project"]["project_id"], asked.query.get("type", ""), ""
        first, last = asked.query.get("from") or None, asked.query.get("to") or None
        try:
            found = await self._projects.analytics(project_id, first, last)
        except InvalidInputError as error:
            found, wrong = await self._projects.analytics(project_id, None, None), error.detail
        analytics, last_day = analytics_fields(found), found.period.last_day
        fields = {
            **choice,
            "analytics": analytics,
            "wrong": wrong,
            "chosen_type": chosen,
            "charts": _charts(analytics, chosen),
            "ranges": [(name, spell_day(max(0, last_day - days + 1))) for name, days in _RANGES.items()],
            "percent": percent,
        }
        return View("analytics/analytics.html", fields)


def _charts(analytics: Mapping[str, Any], chosen: str) -> list[Chart]:
    """A chart of all types together unless one is chosen, and of each type that was sent most."""
    types = [kind for kind in analytics["types"] if not chosen or kind["type_id"] == chosen]
    charts = [] if chosen else [_chart("All types", analytics["by_day"], analytics["total"])]
    for kind in sorted(types, key=lambda kind: kind["total"]["sent"], reverse=True)[:MOST_CHARTS]:
        sent = {day["day"]: day for day in kind["days"]}
        days = [sent.get(day["day"], {"day": day["day"], "sent": 0}) for day in analytics["by_day"]]
        charts.append(_chart(kind["type_id"], days, kind["total"]))
    return charts
