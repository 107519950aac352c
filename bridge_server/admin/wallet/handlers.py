"""Handlers of the wallet's endpoints: read the request, call the service once, write the answer."""

import asyncio

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.pages import wanted_page
from bridge_server.admin.wallet import wire
from bridge_server.admin.wallet.service import WalletDesk
from bridge_server.web.json_body import json_object


class WalletDeskHandlers:
    """One method per endpoint."""

    def __init__(self, desk: WalletDesk) -> None:
        self._desk = desk

    async def accounts(self, _: web.Request) -> web.Response:
        return fields_answer(wire.account_list_fields(self._desk.accounts()))

    async def unlock(self, request: web.Request) -> web.Response:
        address = wire.read_address(request.match_info["address"])
        wanted = wire.read_unlock(await json_object(request))
        account = await self._desk.unlock(address, wanted.passphrase, wanted.seconds)
        return fields_answer(wire.account_fields(account))

    async def lock(self, request: web.Request) -> web.Response:
        account = self._desk.lock(wire.read_address(request.match_info["address"]))
        return fields_answer(wire.account_fields(account))

    async def transactions(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.transactions(wire.read_state(request.query), wire.read_number(after), limit)
        # A signed transaction is read with its signature, 0.1 ms each.
        fields = await asyncio.to_thread(wire.transaction_page_fields, found)
        return fields_answer(fields)

    async def signatures(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.signatures(wire.read_number(after), limit)
        return fields_answer(wire.audit_page_fields(found))
