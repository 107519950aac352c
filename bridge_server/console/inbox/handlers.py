"""The preview of an inbox: what an account sees, its devices, and marking as read for it."""

from typing import Any
from urllib.parse import quote

from bridge_server.admin.accounts.service import AccountViews
from bridge_server.admin.accounts.wire import account_fields
from bridge_server.admin.projects.wire import read_account
from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, NavigationGroup, PagePath, View
from bridge_server.console.words import count_of
from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.notification_wire import page_fields, read_ids, read_query
from bridge_server.inbox.reading import InboxReads
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.projects.caip10 import Account
from bridge_server.web.json_body import JsonObject

_INBOX = "/inbox"
_PAGE = "25"
_LIVE = ("notifications", "projects")


class InboxPreview:
    """The view of an inbox. `account_limit` is the server's default for projects without their own."""

    def __init__(self, inbox: InboxReads, accounts: AccountViews, account_limit: Limit) -> None:
        self._inbox = inbox
        self._accounts = accounts
        self._account_limit = account_limit

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage(
            "inbox-preview",
            "Inbox preview",
            NavigationGroup.NOTIFICATIONS,
            (PagePath(_INBOX, self.show, {"mark-read": self.mark_read}),),
        )

    async def show(self, asked: Asked) -> View:
        """A page of the notifications of an account."""
        searched = asked.query.get("account", "").strip()
        fields = {"searched": searched, "account": None, "wrong": "", "unread": asked.query.get("unread", "")}
        if searched:
            try:
                fields |= await self._fields(read_account(searched), asked)
            except InvalidInputError as error:
                fields["wrong"] = error.detail
        return View("inbox/inbox.html", fields, _LIVE)

    async def mark_read(self, asked: Asked) -> Done:
        account = read_account(asked.query.get("account", ""))
        ids = read_ids(JsonObject({"ids": asked.form.get("ids", "").split()}, None))
        marked = await self._inbox.mark_read(await self._inbox.number_of(account.key), ids, ReadBy.BULK)
        place = f"{ROOT}{_INBOX}?account={quote(account.spelled, safe='')}"
        return Done(place, f"{count_of(marked)} marked as read. They do not count in the read rate.")

    async def _fields(self, account: Account, asked: Asked) -> dict[str, Any]:
        wanted = {name: asked.query[name] for name in ("unread", "after") if asked.query.get(name)}
        query = read_query({**wanted, "limit": _PAGE})
        page = await self._inbox.page(await self._inbox.number_of(account.key), query, wait_seconds=0)
        view = await self._accounts.of(account, None)
        return {
            "account": account_fields(view, self._account_limit),
            "inbox": page_fields(page),
            "is_first_page": "after" not in wanted,
        }
