"""The pages of sent notifications, and of an account: why it did not get a notification."""

from typing import Any

from bridge_server.admin.accounts.service import AccountViews
from bridge_server.admin.accounts.wire import account_fields
from bridge_server.admin.notifications import wire
from bridge_server.admin.projects.wire import read_account
from bridge_server.console.models import Asked, ConsolePage, NavigationGroup, PagePath, View
from bridge_server.console.project_choice import ProjectChoice
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.history_models import DeliveryOutcome
from bridge_server.notify.history_store import HistoryStore
from bridge_server.projects.models import ProjectId

_NOTIFICATIONS = "/notifications"
_NOTIFICATION = f"{_NOTIFICATIONS}/{{project_id:[^/]{{1,128}}}}/{{number:[0-9]{{1,18}}}}"
_ACCOUNT = "/accounts"
_LIVE = ("notifications",)
_PAGE = 25


class NotificationsPage:
    """Views of notifications. `account_limit` is the server's default for projects without their own."""

    def __init__(
        self, choice: ProjectChoice, history: HistoryStore, accounts: AccountViews, account_limit: Limit
    ) -> None:
        self._choice = choice
        self._history = history
        self._accounts = accounts
        self._account_limit = account_limit

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage(
            "notifications",
            "Notifications",
            NavigationGroup.NOTIFICATIONS,
            (
                PagePath(_NOTIFICATIONS, self.show_all),
                PagePath(_NOTIFICATION, self.show),
                PagePath(_ACCOUNT, self.show_account),
            ),
        )

    async def show_all(self, asked: Asked) -> View:
        """The notifications of a project, newest first."""
        fields = await self._list(asked, asked.query.get("after", ""))
        return View("notifications/list.html", fields, _LIVE)

    async def show(self, asked: Asked) -> View:
        """One notification, and a page of its accounts with the outcome of each."""
        project_id, number = ProjectId(asked.names["project_id"]), int(asked.names["number"])
        outcome, after = asked.query.get("outcome", ""), asked.query.get("after", "")
        found, page = await self._history.outcomes(
            project_id, number, wire.read_outcome(outcome or None), wire.read_account_place(after), _PAGE
        )
        fields = {
            **await self._list(asked, ""),
            "notification": wire.outcome_page_fields(found, page),
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
        found = await self._history.notifications(project_id, wire.read_place(after), _PAGE + 1)
        return {**fields, **wire.notification_page_fields(found, _PAGE)}

    async def _account(self, account: str, project_id: str) -> tuple[dict[str, Any] | None, str]:
        """The account's fields, or the failure of its spelling."""
        if not account:
            return None, ""
        try:
            read = read_account(account)
        except InvalidInputError as error:
            return None, error.detail
        view = await self._accounts.of(read, project_id or None)
        return account_fields(view, self._account_limit), ""
