"""The pages of sent notifications, and of an account: why it did not get a notification."""

from typing import Any
from urllib.parse import quote

from bridge_server.admin import notifications
from bridge_server.admin.accounts import AccountAdmin, AccountViewAnswer
from bridge_server.admin.projects import read_account
from bridge_server.admin.rows import read_choice, read_number
from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, PagePath, View
from bridge_server.console.rendering import ProjectChoice, count_of
from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.reading import InboxReads
from bridge_server.inbox.wire import page_fields, read_ids, read_query
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.notify.history import DeliveryOutcome, HistoryStore
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import ProjectId
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
        self._choice = choice
        self._history = history
        self._accounts = accounts

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        paths = (
            PagePath(_NOTIFICATIONS, self.show_all),
            PagePath(_NOTIFICATION, self.show),
            PagePath(_ACCOUNT, self.show_account),
        )
        return ConsolePage("notifications", "Notifications", "Notifications", paths)

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
        found = await self._history.notifications(project_id, read_number(after), _PAGE + 1)
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
        self._inbox = inbox
        self._accounts = accounts

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        path = PagePath(_INBOX, self.show, {"mark-read": self.mark_read})
        return ConsolePage("inbox-preview", "Inbox preview", "Notifications", (path,))

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
        marked = await self._inbox.mark_read(await self._inbox.number_of(account.key), ids, ReadBy.BULK)
        place = f"{ROOT}{_INBOX}?account={quote(account.spelled, safe='')}"
        return Done(place, f"{count_of(marked)} marked as read. They do not count in the read rate.")

    async def _fields(self, account: Account, asked: Asked) -> dict[str, Any]:
        wanted = {name: asked.query[name] for name in ("unread", "after") if asked.query.get(name)}
        query = read_query({**wanted, "limit": _INBOX_PAGE})
        page = await self._inbox.page(await self._inbox.number_of(account.key), query, wait_seconds=0)
        return {
            "account": await self._accounts.of(account, None),
            "inbox": page_fields(page),
            "is_first_page": "after" not in wanted,
        }
