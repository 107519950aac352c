"""Handlers of accounts: read the request, call the service, write the answer."""

from aiohttp import web

from bridge_server.admin.accounts import wire
from bridge_server.admin.accounts.service import AccountViews
from bridge_server.admin.answers import fields_answer
from bridge_server.admin.projects.wire import read_account
from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.notification_wire import page_fields, read_ids, read_query, write_marked
from bridge_server.inbox.reading import InboxReads
from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.answers import json_answer
from bridge_server.web.json_body import json_object


class AccountHandlers:
    """One method per endpoint. `account_limit` is the server's default for projects without their own."""

    def __init__(self, views: AccountViews, inbox: InboxReads, account_limit: Limit) -> None:
        self._views = views
        self._inbox = inbox
        self._account_limit = account_limit

    async def account(self, request: web.Request) -> web.Response:
        account = read_account(request.match_info["account"])
        view = await self._views.of(account, request.query.get("project_id"))
        return fields_answer(wire.account_fields(view, self._account_limit))

    async def inbox(self, request: web.Request) -> web.Response:
        number = await self._number(request)
        page = await self._inbox.page(number, read_query(request.query), wait_seconds=0)
        return fields_answer(page_fields(page))

    async def mark_read(self, request: web.Request) -> web.Response:
        ids = read_ids(await json_object(request))
        marked = await self._inbox.mark_read(await self._number(request), ids, ReadBy.BULK)
        return json_answer(write_marked(marked))

    async def _number(self, request: web.Request) -> int:
        return await self._inbox.number_of(read_account(request.match_info["account"]).key)
